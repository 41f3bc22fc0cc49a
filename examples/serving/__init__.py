"""A server of a small transformer with continuous batching: `python -m examples.serving.server`."""
