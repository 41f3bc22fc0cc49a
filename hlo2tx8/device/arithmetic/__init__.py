"""Arithmetic of the machine on numpy arrays: rounding, conversions, what the kernel core computes."""
