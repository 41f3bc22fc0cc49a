"""All rows of the table."""

from hlo2tx8.frontend.onnx import (
    attention,
    elementwise,
    indexing,
    learned,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    resize,
    sampling,
    shaping,
    signal,
)
from hlo2tx8.frontend.onnx.table import OpRow

FAMILIES = (
    attention,
    elementwise,
    indexing,
    learned,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    resize,
    sampling,
    shaping,
    signal,
)
ROWS: dict[str, OpRow] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
"""Rows by op; ops of another domain than ONNX's own as domain.op."""
