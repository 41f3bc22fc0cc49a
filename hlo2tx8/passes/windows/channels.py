"""Which dimension of an image lies innermost, and how many channels are worth moving there."""

from xdsl.ir import SSAValue

from hlo2tx8.dialects.hlo import minor_to_major
from hlo2tx8.dialects.layout import as_tensor

LEAST_CHANNELS = 16
"""With fewer, moving them costs more than it saves."""


def innermost(value: SSAValue) -> int:
    """The dimension whose elements are next to each other."""
    return minor_to_major(as_tensor(value.type))[0]
