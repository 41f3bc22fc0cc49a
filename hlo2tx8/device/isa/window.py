"""Windows that slide over an image [h, w]: their fields, and how many of them there are.

h = 5, kernel 3, stride 2, pads 1 and 1:   - 0 1 2 3 4 -
rows of windows 0, 1 and 2                 0 0 0
                                               1 1 1
                                                   2 2 2
"""

from collections.abc import Callable

from hlo2tx8.device.isa.fields import Constraint, Field, Operands, Role

MOST_POINTS = 4096
MOST_KERNEL = 255
MOST_STRIDE = 1023
MOST_PAD = 1023


def _fields(names: tuple[str, ...], least: int, most: int) -> tuple[Field, ...]:
    return tuple(Field(name, Role.COUNT, least=least, most=most) for name in names)


IMAGE = _fields(("batch", "h", "w"), 1, MOST_POINTS)
KERNEL = _fields(("kernel_h", "kernel_w"), 1, MOST_KERNEL)
STRIDES = _fields(("stride_h", "stride_w"), 1, MOST_STRIDE)
DILATIONS = _fields(("dilation_h", "dilation_w"), 1, MOST_STRIDE)
PADS = _fields(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0, MOST_PAD)
SIDES = {"h": ("pad_top", "pad_bottom"), "w": ("pad_left", "pad_right")}

Dilation = Callable[[Operands, str], int]


def no_dilation(_o: Operands, _axis: str) -> int:
    """Elements of a window are neighbours."""
    return 1


def dilation(o: Operands, axis: str) -> int:
    """Elements of a window are this far apart."""
    return o[f"dilation_{axis}"]


def num_windows(o: Operands, axis: str, apart: Dilation) -> int:
    """Windows along axis h or w; not positive if none fits."""
    before, after = SIDES[axis]
    reach = (o[f"kernel_{axis}"] - 1) * apart(o, axis) + 1
    return (o[axis] + o[before] + o[after] - reach) // o[f"stride_{axis}"] + 1


def window_fits(apart: Dilation) -> tuple[Constraint, Constraint]:
    """There is at least one window along each axis."""

    def fits(axis: str) -> Constraint:
        before, after = SIDES[axis]
        dilated = f" * dilation_{axis}" if apart is dilation else ""
        text = f"(kernel_{axis} - 1){dilated} < {axis} + {before} + {after}"
        return Constraint(text, lambda o: (o[f"kernel_{axis}"] - 1) * apart(o, axis) < o[axis] + o[before] + o[after])

    return fits("h"), fits("w")
