"""Sums of exponentials over the columns of rows, by the matrix engine: the product of the rows and a column of ones.

    [column blocks][rows][64]  x  ones [columns]   =   [rows][4], of which the first counts, as CT reduces them

The engine has little to do in a softmax between two products, and the vector engine most of all: a sixth to a fourth of its time
were these sums. Each exponential has no more bits than the engine multiplies, 16 or those of TF32, so products with one are exact.
They are added up in FP32, blocks of 16 at a time, toward zero: of n numbers, none negative, that loses less than n / 16 + 15 units
of the last place of 24 bits. What was rounded to 8, 10 or 11 bits before is off by more.
"""

from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ne import MOST_CHANNELS, NeGemm
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects.vector_instructions import is_exponential_as_factor
from hlo2tx8.lower.element_format import Splat
from hlo2tx8.lower.select.select_reduce import PADDED, compacted
from hlo2tx8.lower.select.step_builder import StepBuilder

MULTIPLIED = {Format.BF16: Format.BF16, Format.FP16: Format.FP16, Format.FP32: Format.TF32}
"""As what the engine reads exponentials of a format."""

Filled = Callable[[Splat, int], SSAValue]


def is_summed_by_product(value: SSAValue, num_columns: int) -> bool:
    """Is a vector of exponentials such that the engine adds up its rows?"""
    return num_columns <= MOST_CHANNELS and is_exponential_as_factor(value)


def sum_by_product(rows: StepBuilder, source: SSAValue, num_columns: int, fmt: Format, ones: Filled) -> SSAValue:
    """The sums of rows that lie in channel blocks at `source`, as a vector of `rows`."""
    padded = rows.alloc(fmt, rows.num_lanes * PADDED)
    one = int.from_bytes(np.ones((), fmt.numpy_dtype).tobytes(), "little")
    column = Blocked(fmt, 1, 1, num_columns)
    product = NeGemm.make(
        fmt=fmt,
        fmt2=MULTIPLIED[fmt],
        dst=padded,
        left=source,
        right=ones(Splat(one, fmt), column.size_bytes // fmt.bytes),
        psum=padded,
        rows=rows.count(),
        columns=1,
        depth=num_columns,
        batch=1,
        transpose_left=0,
        transpose_right=0,
        accumulate=0,
        origin=rows.origin,
    )
    rows.insert(product)
    return compacted(rows, padded, fmt)
