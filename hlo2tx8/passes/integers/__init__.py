"""Products of integers that the matrix engine does not multiply: as digits of 8 bits, which it does."""
