"""The driver: runs the pipeline of passes level by level, verifies and dumps the IR in between, and lists what is refused."""
