"""Weights several of which are in a byte or a word."""
