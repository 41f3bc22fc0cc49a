"""Scatters: where their updates go, and what they become."""
