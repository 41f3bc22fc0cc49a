"""A program for several devices without the partitioner: every device has all of every array, but in manual computations.

%1 = add %a, %a      %a: 8x4, in parts         %0 = move %a: parts to whole            (8x4 on every device)
                                        ⟶     %1 = add %0, %0
%2 = manual(%1) { multiply }                   %2 = move %1: whole to parts; %3 = multiply %2; %4 = move %3: parts to whole
return %2                                      %5 = move %4: whole to parts; return %5

More work and more traffic than a partitioned program, and right for every program that has this form.
"""
# pyright: basic

from collections.abc import Callable
from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.pjrt.places import MOVE, Place

INLINE = "builtin.module(inline,symbol-dce)"
CLEAN = "builtin.module(symbol-dce)"
FUNC, CALL = "func.func", "func.call"
MANUAL = "sdy.manual_computation"
NOTHING = ("sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier")
"""Operations that do nothing to an array that every device has all of."""
Places = tuple[Place, ...]
PlaceOf = Callable[[Any, int, tuple[str, ...] | None], Place]


def flatten(module: Any, arguments: Places, results: Places, devices: tuple[int, ...], place_of: PlaceOf) -> bool:
    """Changes the module in place; False if it has another form: then it is of no use any more.

    `place_of` gives the place of a sharding of a tensor of that rank, of which only these axes count, all if None.
    """
    shim.run_pipeline(module, INLINE)
    ir = shim.ir()
    with module.context, ir.Location.unknown():
        found = [op for op in module.body.operations if op.operation.name == FUNC]
        functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in found}
        main = functions.pop("main")
        block = main.regions[0].blocks[0]
        while call := next((op for op in block.operations if op.operation.name == CALL), None):
            _inline_call(call, functions[ir.FlatSymbolRefAttr(call.attributes["callee"]).value])
        for op in _operations(module, NOTHING):
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
        first = block.operations[0]
        for argument, place in zip(block.arguments, arguments, strict=True):
            argument.set_type(_local(argument.type, place))
            moved = _move(argument, place, _everywhere(argument, devices), first)
            if moved is not argument:
                argument.replace_all_uses_except(moved, moved.owner.operation)
        while manual := next((op for op in block.operations if op.operation.name == MANUAL), None):
            _inline_manual(manual, devices, place_of)
        last = list(block.operations)[-1]
        for number, place in enumerate(results):
            value = last.operation.operands[number]
            last.operation.operands[number] = _move(value, _everywhere(value, devices), place, last)
        for op in reversed(list(block.operations)):
            if _is_move(op) and not list(op.results[0].uses):
                op.operation.erase()
        inputs, outputs = [a.type for a in block.arguments], [v.type for v in last.operation.operands]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
    shim.run_pipeline(module, CLEAN)
    with module.context:
        return not _operations(module, None)


def _operations(module: Any, names: tuple[str, ...] | None) -> list[Any]:
    """The operations of these names, or all of the partitioner's but meshes."""
    ir = shim.ir()
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name in names if names is not None else op.name.startswith("sdy.") and op.name != "sdy.mesh":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _is_move(op: Any) -> bool:
    named = op.operation.name == "stablehlo.custom_call"
    return named and shim.ir().StringAttr(op.attributes["call_target_name"]).value == MOVE


def _inline_call(call: Any, function: Any) -> None:
    """Puts a copy of a function's body in the place of a call: the inliner knows nothing of manual computations."""
    copy = function.operation.clone(ip=False)
    block = copy.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, call.operation.operands, strict=True):
        argument.replace_all_uses_with(operand)
    *body, last = list(block.operations)
    for op in body:
        op.move_before(call)
    for result, value in zip(call.operation.results, last.operation.operands, strict=True):
        result.replace_all_uses_with(value)
    call.operation.erase()


def _inline_manual(manual: Any, devices: tuple[int, ...], place_of: PlaceOf) -> None:
    """Puts a manual computation's body in its place, between moves."""
    from jaxlib.mlir.dialects import sdy

    axes = tuple(str(axis) for axis in sdy.ManualAxesAttr(manual.attributes["manual_axes"]))
    block = manual.regions[0].blocks[0]
    ins = sdy.TensorShardingPerValueAttr(manual.attributes["in_shardings"]).shardings
    outs = sdy.TensorShardingPerValueAttr(manual.attributes["out_shardings"]).shardings
    operands = list(manual.operation.operands)
    for argument, operand, sharding in zip(block.arguments, operands, ins, strict=True):
        place = place_of(sharding, len(argument.type.shape), axes)
        argument.replace_all_uses_with(_move(operand, _everywhere(operand, devices), place, manual))
    *body, last = list(block.operations)
    for op in body:
        op.move_before(manual)
    for result, value, sharding in zip(manual.results, list(last.operation.operands), outs, strict=True):
        place = place_of(sharding, len(result.type.shape), axes)
        result.replace_all_uses_with(_move(value, place, _everywhere(result, devices), manual))
    manual.operation.erase()


def rank_of(type_: Any) -> int:
    """A tensor's; 0 of what is no array."""
    ir = shim.ir()
    return ir.RankedTensorType(type_).rank if isinstance(type_, ir.RankedTensorType) else 0


def _everywhere(value: Any, devices: tuple[int, ...]) -> Place:
    return Place((1,) * rank_of(value.type), 1, devices)


def _local(type_: Any, place: Place) -> Any:
    ir = shim.ir()
    if not isinstance(type_, ir.RankedTensorType):
        return type_
    return ir.RankedTensorType.get(place.local(type_.shape), type_.element_type)


def _move(value: Any, source: Place, target: Place, before: Any) -> Any:
    """The value as it is in another place, after a move in front of an op if one is needed; of two moves, one."""
    ir = shim.ir()
    if not isinstance(value.owner, ir.Block) and _is_move(value.owner):
        first, second = map(Place.of_text, ir.StringAttr(value.owner.attributes["backend_config"]).value.split("|"))
        if second == source:
            value, source = value.owner.operands[0], first
    if source == target or not isinstance(value.type, ir.RankedTensorType):
        return value
    whole = [size * count for size, count in zip(value.type.shape, source.tiles, strict=True)]
    attributes = {
        "call_target_name": ir.StringAttr.get(MOVE),
        "backend_config": ir.StringAttr.get("|".join(place.as_text() for place in (source, target))),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2),
        "has_side_effect": ir.BoolAttr.get(False),
    }
    kind = ir.RankedTensorType.get(target.local(whole), value.type.element_type)
    with ir.InsertionPoint(before), before.location:
        move = ir.Operation.create("stablehlo.custom_call", results=[kind], operands=[value], attributes=attributes)
    return move.results[0]
