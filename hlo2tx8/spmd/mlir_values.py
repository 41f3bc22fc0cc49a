"""What values in jaxlib's MLIR are, and operations beside them."""
# pyright: basic

from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.spmd.sharding_rule import splat_of

CONSTANT = "stablehlo.constant"
SHARDING = "sdy.sharding"


def is_tensor(type_: Any) -> bool:
    """Is it the type of an array?"""
    return isinstance(type_, shim.ir().RankedTensorType)


def rank_of(value: Any) -> int:
    """An array's; 0 of what is none."""
    return len(value.type.shape) if is_tensor(value.type) else 0


def as_stablehlo(op: Any) -> Any:
    """A constant of Shardy's as StableHLO's; other operations are returned as they are."""
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


def is_zero(value: Any) -> bool:
    """Is it zero everywhere, whatever its shape?"""
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


class after:
    """New operations come right after what gives the value."""

    def __init__(self, value: Any) -> None:
        ir = shim.ir()
        if isinstance(value.owner, ir.Block):
            self.point, self.location = ir.InsertionPoint.at_block_begin(value.owner), value.owner.owner.location
        else:
            self.point, self.location = ir.InsertionPoint.after(value.owner), value.owner.operation.location

    def __enter__(self) -> None:
        self.point.__enter__()
        self.location.__enter__()

    def __exit__(self, *exc: object) -> None:
        self.location.__exit__(*exc)
        self.point.__exit__(*exc)
