"""Statistics of rows: sums of their elements and of what is made of these."""
