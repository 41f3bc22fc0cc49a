"""Views of windows: the elements of an operand with the dimensions of a window behind those of the result.

A view is never stored: it is larger than its operand by the size of the window.
"""

from xdsl.ir import SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.indexing import Dim, Expr, IndexingMap

Dims = tuple[int, ...]


def pad_window(e: Expansion, window: Window, x: SSAValue, value: SSAValue) -> SSAValue:
    """The operand with the rows around it and the holes in it filled with a value."""
    return e.pad(x, value, window.low, window.high, window.interior)


def window_map(window: Window, shape: Dims) -> IndexingMap:
    """(d0, d1) -> (d0 * stride + d1 * dilation): the place in each window, for the dimensions in which it has several.

    There is at least one of those.
    """
    wide = [d for d, size in enumerate(window.size) if size != 1] or [0]
    exprs: list[Expr] = [Dim(d) * stride for d, stride in enumerate(window.strides)]
    for position, d in enumerate(wide):
        exprs[d] = exprs[d] + Dim(len(shape) + position) * window.window_dilations[d]
    return IndexingMap.from_shape(exprs, (*shape, *(window.size[d] for d in wide)))
