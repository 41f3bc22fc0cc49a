"""How precisely dots and convolutions multiply f32: their precision_config says it.

DEFAULT     one pass of TF32: the 13 lowest bits of each factor do not count
HIGH, HIGHEST, an algorithm     f32
"""

from math import sqrt

from xdsl.dialects.builtin import ArrayAttr, Float32Type, StringAttr
from xdsl.ir import Operation

from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.accumulation import num_accumulated
from hlo2tx8.hlo.lookup import attributes_of, has_spec, spec_of
from hlo2tx8.hlo.spec import Kind

HIGHEST = ArrayAttr([StringAttr("HIGHEST")] * 2)
"""The precision_config of a dot that multiplies f32."""
TF32_PRODUCT = 2.0**-9
"""What cutting off both factors may change of a product, relative to it."""


def is_tf32(op: Operation) -> bool:
    """Does a dot or convolution multiply its operands as TF32?"""
    if not all(isinstance(as_tensor(operand.type).element_type, Float32Type) for operand in op.operands):
        return False
    attributes = attributes_of(op)
    asked = attributes.get("precision_config") or ()
    return attributes.get("algorithm") is None and not any("HIGH" in str(entry) for entry in asked)


def multiplied_epsilon(op: Operation) -> float:
    """How far off a dot may be for the format it multiplies in, relative to a result whose products do not cancel more than
    random ones do; 0 for other ops."""
    if not has_spec(op.name) or not (spec_of(op).kind is Kind.DOT or op.name == "stablehlo.convolution") or not is_tf32(op):
        return 0.0
    return TF32_PRODUCT * sqrt(max(1, num_accumulated(op)))
