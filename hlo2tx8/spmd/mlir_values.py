"""Questions about values of jaxlib's MLIR, and a place for new ops beside them."""
# pyright: basic

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hlo2tx8.frontend import shim

CONSTANT = "stablehlo.constant"
SHARDING = "sdy.sharding"


def is_tensor(type_: Any) -> bool:
    """Is it the type of an array?"""
    return isinstance(type_, shim.ir().RankedTensorType)


def rank_of(value: Any) -> int:
    """The rank of an array; 0 for a token or any other value that is no array."""
    return len(value.type.shape) if is_tensor(value.type) else 0


def splat_of(op: Any) -> Any:
    """The attribute of the one value that a constant has everywhere; None if it has several values, or is complex."""
    ir = shim.ir()
    if isinstance(op.results[0].type.element_type, ir.ComplexType):
        return None
    value = op.attributes["value"]
    if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat:
        return None
    return value.get_splat_value()


def is_zero(value: Any) -> bool:
    """Is it a constant, or a broadcast of one, that is zero everywhere?"""
    ir = shim.ir()
    if isinstance(value.owner, ir.Block):
        return False
    owner = value.owner.operation
    if owner.name == "stablehlo.broadcast_in_dim":
        return is_zero(owner.operands[0])
    if owner.name != CONSTANT:
        return False
    splat = splat_of(owner)
    return isinstance(splat, (ir.FloatAttr, ir.IntegerAttr, ir.BoolAttr)) and splat.value == 0


def as_stablehlo(op: Any) -> Any:
    """A stablehlo.constant in place of an sdy.constant, with its sharding; any other op as it is."""
    if op.name != "sdy.constant":
        return op
    sharding = op.attributes[SHARDING] if SHARDING in op.attributes else None  # noqa: SIM401
    if sharding is not None:
        del op.attributes[SHARDING]
    ir = shim.ir()
    text = op.get_asm(print_generic_op_form=True).replace('"sdy.constant"', '"stablehlo.constant"', 1)
    with op.location:
        constant = ir.Operation.parse(text).operation  # an attribute of complex numbers cannot be passed on
        ir.InsertionPoint(op).insert(constant)
    if sharding is not None:
        constant.attributes[SHARDING] = sharding
    op.results[0].replace_all_uses_with(constant.results[0])
    op.erase()
    return constant


@contextmanager
def inserting_after(value: Any) -> Iterator[None]:
    """A context in which new ops go right after the op that defines the value, or to the beginning of its block."""
    ir = shim.ir()
    if isinstance(value.owner, ir.Block):
        point, location = ir.InsertionPoint.at_block_begin(value.owner), value.owner.owner.location
    else:
        point, location = ir.InsertionPoint.after(value.owner), value.owner.operation.location
    with point, location:
        yield
