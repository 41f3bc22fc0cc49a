"""What doors share whose programs are traced with jax, op by op."""


class Refused(Exception):
    """A node that cannot be compiled, and why."""


class Lost(Exception):
    """A value that a refused node would have computed."""


def first_line(error: BaseException) -> str:
    """The first line that a message has; the class of one that has none."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
