"""Executables: compiled programs with their signature, how they are stored, run, profiled and traced; sessions that serve them."""
