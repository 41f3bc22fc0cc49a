"""Strict mode: instructions execute as late as the machine may, and what a program leaves to chance is a fault."""
