"""Models in plain jax, forward and training step, on the emulator and on XLA:CPU: `python -m benchmarks.models`."""
