"""Measurements against XLA:CPU; `make bench` runs them. Figures are medians of interleaved runs on one pinned core."""
