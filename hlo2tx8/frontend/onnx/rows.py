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
from hlo2tx8.frontend.onnx.table import OpRow, refusing

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
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
ROWS: dict[str, OpRow] = {
    **{name: row for family in FAMILIES for name, row in family.ROWS.items()},
    **refusing("the shape of its result depends on what is computed", "NonMaxSuppression"),
    **refusing("it draws random numbers", *RANDOM),
    **refusing("strings are not computed with", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
}
"""Rows by op; ops of another domain than ONNX's own as domain.op."""
