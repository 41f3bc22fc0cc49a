"""What doors share whose programs are traced with jax, op by op."""


class Refused(Exception):
    """A node that cannot be compiled, and why."""


class Lost(Exception):
    """A value that a refused node would have computed."""
