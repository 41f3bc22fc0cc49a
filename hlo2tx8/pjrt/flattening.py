"""A program for several devices without the partitioner: every device has all of every array, but in manual computations.

%1 = add %a, %a      %a: 8x4, in parts         %0 = move %a: parts to whole            (8x4 on every device)
                                        ⟶     %1 = add %0, %0
%2 = manual(%1) { multiply }                   %2 = move %1: whole to parts; %3 = multiply %2; %4 = move %3: parts to whole
return %2                                      %5 = move %4: whole to parts; return %5

More work and more traffic than a partitioned program, and right for every program that has this form.
"""
# pyright: basic

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.pjrt.places import MOVE, Place, moves_of_text, text_of_moves

INLINE = "builtin.module(inline,symbol-dce)"
CLEAN = "builtin.module(symbol-dce)"
FUNC, CALL, CUSTOM_CALL = "func.func", "func.call", "stablehlo.custom_call"
MANUAL = "sdy.manual_computation"
NOTHING = ("sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier")
"""Operations that do nothing to an array that every device has all of."""
Places = tuple[Place, ...]
PlaceOf = Callable[[Any, int, tuple[str, ...] | None], Place]
GroupsOf = Callable[[tuple[str, ...]], tuple[tuple[int, ...], ...]]


def flatten(module: Any, arguments: Places, results: Places, groups_of: GroupsOf, place_of: PlaceOf) -> list[str]:
    """Changes the module in place; the names of the partitioner's operations that are left, none if all went well.

    `place_of` gives the place of a sharding of a tensor of that rank, of which only these axes count, all if None; `groups_of` the
    devices that are at the same place on some axes.
    """
    shim.run_pipeline(module, INLINE)
    ir = shim.ir()
    everyone = groups_of(())
    with module.context, ir.Location.unknown():
        found = [op for op in module.body.operations if op.operation.name == FUNC]
        functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in found}
        main = functions.pop("main")
        block = main.regions[0].blocks[0]
        while calls := _operations(main, (CALL,)):
            _inline_call(calls[0], functions[ir.FlatSymbolRefAttr(calls[0].attributes["callee"]).value])
        for op in _operations(module, NOTHING):
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
        first = block.operations[0]
        for argument, place in zip(block.arguments, arguments, strict=True):
            argument.set_type(_local(argument.type, place))
            moved = _move(argument, (place,), _everywhere(argument, everyone), first)
            if moved is not argument:
                argument.replace_all_uses_except(moved, moved.owner.operation)
        while manuals := _operations(main, (MANUAL,)):
            _inline_manual(manuals[0], groups_of, place_of)
        last = list(block.operations)[-1]
        for number, place in enumerate(results):
            value = last.operation.operands[number]
            last.operation.operands[number] = _move(value, _everywhere(value, everyone), (place,), last)
        for op in reversed(_operations(main, (CUSTOM_CALL,))):
            if _is_move(op) and not list(op.results[0].uses):
                op.operation.erase()
        inputs, outputs = [a.type for a in block.arguments], [v.type for v in last.operation.operands]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
    shim.run_pipeline(module, CLEAN)
    with module.context:
        return sorted({op.name for op in _operations(module, None)})


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
    named = op.operation.name == CUSTOM_CALL
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


def _inline_manual(manual: Any, groups_of: GroupsOf, place_of: PlaceOf) -> None:
    """Puts a manual computation's body in its place, between moves: inside of another, of devices that are at one place of that."""
    from jaxlib.mlir.dialects import sdy

    axes, groups = manual_axes(manual), groups_of(_outer_axes(manual))
    block = manual.regions[0].blocks[0]
    ins = sdy.TensorShardingPerValueAttr(manual.attributes["in_shardings"]).shardings
    outs = sdy.TensorShardingPerValueAttr(manual.attributes["out_shardings"]).shardings
    operands = list(manual.operation.operands)
    for argument, operand, sharding in zip(block.arguments, operands, ins, strict=True):
        place = place_of(sharding, len(argument.type.shape), axes)
        argument.replace_all_uses_with(_move(operand, _everywhere(operand, groups), _by_group(place, groups), manual))
    *body, last = list(block.operations)
    for op in body:
        op.move_before(manual)
    for result, value, sharding in zip(manual.results, list(last.operation.operands), outs, strict=True):
        place = place_of(sharding, len(result.type.shape), axes)
        result.replace_all_uses_with(_move(value, _by_group(place, groups), _everywhere(result, groups), manual))
    manual.operation.erase()


def manual_axes(manual: Any) -> tuple[str, ...]:
    """The axes of the mesh on which a manual computation's values are each device's own."""
    from jaxlib.mlir.dialects import sdy

    return tuple(str(axis) for axis in sdy.ManualAxesAttr(manual.attributes["manual_axes"]))


def _outer_axes(op: Any) -> tuple[str, ...]:
    """The axes of the manual computations around an operation."""
    found: list[str] = []
    parent = op.operation.parent
    while parent is not None:
        found += manual_axes(parent) if parent.name == MANUAL else ()
        parent = parent.parent
    return tuple(found)


def rank_of(type_: Any) -> int:
    """A tensor's; 0 of what is no array."""
    ir = shim.ir()
    return ir.RankedTensorType(type_).rank if isinstance(type_, ir.RankedTensorType) else 0


def _everywhere(value: Any, groups: tuple[tuple[int, ...], ...]) -> Places:
    """Every device of each group has all of the value."""
    return tuple(Place((1,) * rank_of(value.type), 1, devices) for devices in groups)


def _by_group(place: Place, groups: tuple[tuple[int, ...], ...]) -> Places:
    """What of the place each group has."""
    return tuple(replace(place, devices=tuple(i for i in place.devices if i in group)) for group in groups)


def _local(type_: Any, place: Place) -> Any:
    ir = shim.ir()
    if not isinstance(type_, ir.RankedTensorType):
        return type_
    return ir.RankedTensorType.get(place.local(type_.shape), type_.element_type)


def _move(value: Any, source: Places, target: Places, before: Any) -> Any:
    """The value as it is in another place, after a move in front of an op if one is needed; of two moves, one."""
    ir = shim.ir()
    if not isinstance(value.owner, ir.Block) and _is_move(value.owner):
        moves = moves_of_text(ir.StringAttr(value.owner.attributes["backend_config"]).value)
        if tuple(second for _, second in moves) == source:
            value, source = value.owner.operands[0], tuple(first for first, _ in moves)
    if source == target or not isinstance(value.type, ir.RankedTensorType):
        return value
    whole = [size * count for size, count in zip(value.type.shape, source[0].tiles, strict=True)]
    attributes = {
        "call_target_name": ir.StringAttr.get(MOVE),
        "backend_config": ir.StringAttr.get(text_of_moves(zip(source, target, strict=True))),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2),
        "has_side_effect": ir.BoolAttr.get(False),
    }
    kind = ir.RankedTensorType.get(target[0].local(whole), value.type.element_type)
    with ir.InsertionPoint(before), before.location:
        move = ir.Operation.create(CUSTOM_CALL, results=[kind], operands=[value], attributes=attributes)
    return move.results[0]
