"""Pass simplify-control: control flow that needs no control, so that only real loops and branches are left.

    optimization_barrier %a, %b              ⟶    %a, %b
    get_tuple_element (tuple %a, %b)[1]      ⟶    %b
    map f over %a, %b                        ⟶    the ops of f on whole arrays
    custom_call @Sharding %a                 ⟶    %a
    sdy.sharding_constraint %a               ⟶    %a
    case %constant [f, g]                    ⟶    the body of f or g
    while that never runs, or runs once      ⟶    its operands, its body

    while (%i = 0, %x = %a, %w = %b)                     while (%i = 0, %x = %a) {hlo.trip_count = 5}
      cond %i < 5                                ⟶         cond %i < 5
      do return %i + 1, dot(%x, %w), %w                    do return %i + 1, dot(%x, %b)

Loop state that no turn changes becomes a value the body closes over; state nobody needs, and a second counter that
always equals the first, go. Ops whose results nobody reads go, at every depth, and functions that nobody calls then.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.lift_body import lift_map
from hlo2tx8.dialects.hlo import decode_attributes, is_splat_literal, name_of, origin
from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.module import NO_INLINE, program_functions
from hlo2tx8.hlo.ops.control import SINGLE_DEVICE_IDENTITIES
from hlo2tx8.hlo.regions import CONTROL, inline_region
from hlo2tx8.passes.rules.loops import simplify_loop

SINKS = ("dce_sink",)
"""Targets of custom calls that only keep what they read."""
SINGLE_DEVICE_OPS = ("sdy.sharding_constraint", "sdy.propagation_barrier")
"""What says where data lies, as ops."""
_SIDE_EFFECTS = ("stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv", "hlo.unknown")
_TERMINATORS = ("func.return", "stablehlo.return")


@dataclass(frozen=True)
class SimplifyControlPass(ModulePass):
    """Simplify the control flow of @main and of what it calls; CompileError for custom calls of unknown targets."""

    name = "simplify-control"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in program_functions(op):
            block = function.body.block
            _erase_unread(block)
            _simplify(block)
            _erase_unread(block)
        called = program_functions(op)
        for function in ops_of(op.body.block):
            if NO_INLINE in function.attributes and function not in called:
                op.body.block.erase_op(function)


def _simplify(block: Block) -> None:
    """Rewrites the ops of a block after those in their regions."""
    for op in ops_of(block):
        for region in op.regions:
            for inner in region.blocks:
                _simplify(inner)
        _rewrite(op)


def _erase_unread(block: Block) -> None:
    """Drops ops without effect whose results nobody reads, in the block and the regions inside of it."""
    for op in reversed(ops_of(block)):
        if all(result.first_use is None for result in op.results) and not _has_effect(op):
            Rewriter.erase_op(op)
        elif op.name in CONTROL:
            for region in op.regions:
                _erase_unread(region.block)


def _has_effect(op: Operation) -> bool:
    if op.name in (*_TERMINATORS, *_SIDE_EFFECTS):
        return True
    return op.name == "stablehlo.custom_call" and bool(decode_attributes(op).get("has_side_effect"))


def _rewrite(op: Operation) -> None:
    match op.name:
        case "stablehlo.optimization_barrier":
            Rewriter.replace_op(op, [], list(op.operands))
        case "stablehlo.get_tuple_element":
            _read_tuple(op)
        case "stablehlo.map":
            lift_map(op)
        case "stablehlo.custom_call":
            _replace_custom_call(op)
        case "hlo.unknown" if name_of(op) in SINGLE_DEVICE_OPS:
            Rewriter.replace_op(op, [], list(op.operands))
        case "stablehlo.if" | "stablehlo.case":
            _choose_branch(op)
        case "stablehlo.while":
            simplify_loop(op)
        case _:
            pass


def _read_tuple(op: Operation) -> None:
    owner = op.operands[0].owner
    if isinstance(owner, Operation) and owner.name == "stablehlo.tuple":
        Rewriter.replace_op(op, [], [owner.operands[int(decode_attributes(op)["index"])]])


def _replace_custom_call(op: Operation) -> None:
    target = str(decode_attributes(op).get("call_target_name", ""))
    same = [_elements(value.type) for value in op.operands] == [_elements(type_) for type_ in op.result_types]
    if target in SINKS and not op.results:
        op.detach()
        op.erase()
        return
    if target not in SINGLE_DEVICE_IDENTITIES or not same:
        raise CompileError("E1001", f"custom call of target {target} is not supported", origin=origin(op))
    Expansion(op).replace(*op.operands)


def _elements(type_: Attribute) -> Attribute:
    """The type without its layout."""
    return TensorType(as_tensor(type_).element_type, as_tensor(type_).get_shape()) if is_tensor(type_) else type_


def _choose_branch(op: Operation) -> None:
    """A branch that is known: true is the first region of an if, an index out of range the last of a case."""
    selector = op.operands[0].owner
    if not (isinstance(selector, Operation) and selector.name == "stablehlo.constant" and is_splat_literal(selector)):
        return
    number = int(decode_attributes(selector)["value"])
    if op.name == "stablehlo.if":
        number = 0 if number else 1
    elif not 0 <= number < len(op.regions):
        number = len(op.regions) - 1
    inline_region(op, op.regions[number].block, [])
