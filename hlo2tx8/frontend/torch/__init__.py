"""PyTorch programs as StableHLO modules: graphs of ATen ops, every op as the function of jax that means it."""
