"""The OpSpec table, one module per family; a new op is one entry in one of them."""

from hlo2tx8.hlo.ops import (
    chlo,
    chlo_broadcast,
    constant,
    control,
    convert,
    convolution,
    dot,
    dynamic,
    elementwise_arithmetic,
    elementwise_integer,
    elementwise_math,
    elementwise_select,
    gather,
    indexed,
    reduce,
    scatter,
    shaping,
    window,
)
from hlo2tx8.hlo.spec import OpSpec

SPECS: tuple[OpSpec, ...] = (
    *elementwise_arithmetic.SPECS,
    *elementwise_integer.SPECS,
    *elementwise_math.SPECS,
    *elementwise_select.SPECS,
    *convert.SPECS,
    *chlo.SPECS,
    *chlo_broadcast.SPECS,
    *shaping.SPECS,
    *constant.SPECS,
    *dynamic.SPECS,
    *indexed.SPECS,
    *gather.SPECS,
    *scatter.SPECS,
    *reduce.SPECS,
    *dot.SPECS,
    *window.SPECS,
    *convolution.SPECS,
    *control.SPECS,
)
