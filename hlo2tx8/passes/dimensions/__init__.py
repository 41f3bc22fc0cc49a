"""The order of dimensions: which tensors share theirs, what another order is worth, and how it is brought about."""
