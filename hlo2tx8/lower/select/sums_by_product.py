"""Sums of exponentials over the columns of rows, by the matrix engine: the product of the rows and a column of ones.

    [column blocks][rows][64]  x  ones [columns]   =   [rows][4], of which the first counts, as CT reduces them

The engine has little to do in a softmax between two products, and the vector engine most of all: a sixth to a fourth of its time
were these sums. Each exponential has no more bits than the engine multiplies, 16 or those of TF32, so products with one are exact.
They are added up in FP32, blocks of 16 at a time, toward zero: of n numbers, none negative, that loses less than n / 16 + 15 units
of the last place of 24 bits. What was rounded to 8, 10 or 11 bits before is off by more.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ne import MOST_CHANNELS, NeGemm
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects.vector_instructions import is_exponential_as_factor
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.element_format import Splat
from hlo2tx8.lower.select.select_reduce import PADDED, compacted
from hlo2tx8.lower.select.step_builder import StepBuilder

MULTIPLIED = {Format.BF16: Format.BF16, Format.FP16: Format.FP16, Format.FP32: Format.TF32}
"""As what the engine reads numbers of a format."""

Filled = Callable[[Splat, int], SSAValue]


def is_summed_by_product(value: SSAValue, num_columns: int) -> bool:
    """Is a vector of exponentials such that the engine adds up its rows?"""
    return num_columns <= MOST_CHANNELS and is_exponential_as_factor(value)


def sum_by_product(rows: StepBuilder, source: SSAValue, num_columns: int, fmt: Format, ones: Filled) -> SSAValue:
    """The sums of rows that lie in channel blocks at `source`, as a vector of `rows`."""
    padded, column = rows.alloc(fmt, rows.num_lanes * PADDED), Blocked(fmt, 1, 1, num_columns)
    right = ones(splat_of(1.0, fmt), column.size_bytes // fmt.bytes)
    insert_product(rows, fmt, padded, source, right, (rows.count(), 1, num_columns))
    return compacted(rows, padded, fmt)


def splat_of(value: float, fmt: Format) -> Splat:
    """A number in all lanes."""
    return Splat(int.from_bytes(np.array(value, fmt.numpy_dtype).tobytes(), "little"), fmt)


def insert_product(
    step: StepBuilder,
    fmt: Format,
    dst: SSAValue,
    left: SSAValue,
    right: SSAValue,
    sizes: tuple[Size, int, int],
    start: SSAValue | None = None,
) -> None:
    """dst = start + left . right of numbers that the engine does not round; sizes are rows, columns and depth."""
    rows, columns, depth = sizes
    psum, accumulate = (dst, 0) if start is None else (start, 1)
    fields: dict[str, Any] = {
        "dst": dst,
        "left": left,
        "right": right,
        "psum": psum,
        "rows": rows,
        "columns": columns,
        "depth": depth,
    }
    plain: dict[str, Any] = {"batch": 1, "transpose_left": 0, "transpose_right": 0, "accumulate": accumulate}
    step.insert(NeGemm.make(fmt=fmt, fmt2=MULTIPLIED[fmt], origin=step.origin, **fields, **plain))
