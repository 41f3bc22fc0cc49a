"""Programs that run unchanged on tx8 and on cpu: `python -m examples.NAME [--platform=cpu]`."""
