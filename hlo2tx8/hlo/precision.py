"""The precision at which dots and convolutions multiply f32, as their precision_config says.

DEFAULT     one pass of TF32: the 13 lowest bits of each factor do not count
HIGH        three passes of BF16: each factor is the sum of two numbers
HIGHEST     six passes: each factor is the sum of three, which hold all of its bits

A dot may name an algorithm instead: one product of BF16 or TF32 is one pass, three products of BF16 are three, others six.
"""

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation

from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import attributes_of, kept
from hlo2tx8.hlo.types import numpy_dtype

DEFAULT, HIGHEST = (ArrayAttr([StringAttr(name)] * 2) for name in ("DEFAULT", "HIGHEST"))
"""What the precision_config of a dot says."""
ALGORITHMS = (({"bf16", "tf32"}, 1, 1), ({"bf16"}, 3, 2))
"""Types in which an algorithm multiplies, how many products it adds up at most, and the number of parts that is as exact."""
CUT_OFF = {1: 2.0**-9, 2: 2.0**-14, 3: 2.0**-21}
"""What leaving out the rest of both factors may change of a product, relative to it, by the number of parts."""


def num_parts(op: Operation) -> int:
    """The number of narrower numbers that stand for each factor of a dot or convolution; 1 unless a factor is f32."""
    return kept(op, "number of parts", _num_parts)


def _num_parts(op: Operation) -> int:
    if not _multiplies_single(op):
        return 1
    algorithm = attributes_of(op).get("algorithm")
    if algorithm is not None:
        types, products = {algorithm.lhs_precision_type, algorithm.rhs_precision_type}, int(algorithm.num_primitive_operations)
        return next((parts for names, most, parts in ALGORITHMS if types <= names and products <= most), 3)
    return {"HIGHEST": 3, "HIGH": 2}.get(asked_precision(op), 1)


def asked_precision(op: Operation) -> str:
    """DEFAULT, HIGH or HIGHEST: the higher of what a dot or convolution says for its factors."""
    asked = [str(entry) for entry in attributes_of(op).get("precision_config") or ()]
    return next((name for name in ("HIGHEST", "HIGH") if any(name in entry for entry in asked)), "DEFAULT")


def cut_off(op: Operation) -> float:
    """The relative error that multiplying in a narrower format may cause in a product of a dot or convolution; 0 if there is
    none.
    """
    return CUT_OFF[num_parts(op)] if _multiplies_single(op) else 0.0


def _multiplies_single(op: Operation) -> bool:
    """Is a factor f32, or made of f32 parts? The other one is made so, too."""
    names = (numpy_dtype(as_tensor(operand.type).element_type).name for operand in op.operands)
    return any(name in ("float32", "complex64") for name in names)


def are_factors_alike(op: Operation) -> bool:
    """Is it all one which of a dot's operands comes first, as far as precision goes?"""
    attributes = attributes_of(op)
    algorithm = attributes.get("algorithm")
    if len({str(entry) for entry in attributes.get("precision_config") or ()}) > 1:
        return False
    return algorithm is None or (algorithm.lhs_precision_type, algorithm.lhs_component_count) == (
        algorithm.rhs_precision_type,
        algorithm.rhs_component_count,
    )
