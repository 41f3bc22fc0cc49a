"""One all_reduce in place of several over the same devices, as a link takes long to start.

%1 = all_reduce %a
%2 = all_reduce %b      ⟶     %1, %2 = all_reduce %a, %b
"""
# pyright: basic

from dataclasses import dataclass
from typing import Any

from hlo2tx8.frontend import shim

ALL_REDUCE = "stablehlo.all_reduce"
Key = tuple[str, ...]


@dataclass
class _Group:
    """all_reduces that can be one op, in order, and the number of the member in whose place that op may stand."""

    members: list[Any]
    place: int


def combine_all_reduces(op: Any) -> None:
    """In every block of an op, joins each all_reduce with the last one of its key, in the place of the earlier or the later."""
    for region in op.regions:
        for block in region.blocks:
            operations = [inner.operation for inner in block.operations]
            for group in _groups(operations):
                _combine(group.members, operations[group.place])
            for inner in block.operations:
                if inner.operation.name != ALL_REDUCE:
                    combine_all_reduces(inner.operation)


def _groups(operations: list[Any]) -> list[_Group]:
    """The groups of two and more all_reduces of a block that can be one op."""
    number = {result: i for i, op in enumerate(operations) for result in op.results}
    last_of_key: dict[Key, _Group] = {}
    found: list[_Group] = []
    for i, op in enumerate(operations):
        key = _key(op) if op.name == ALL_REDUCE else None
        if key is None:
            continue
        group = last_of_key.get(key)
        if group is not None and all(number.get(value, -1) < group.place for value in op.operands):
            group.members.append(op)
        elif group is not None and not _are_read(group.members, operations[group.place : i + 1]):
            group.members.append(op)
            group.place = i
        else:
            group = last_of_key[key] = _Group([op], i)
            found.append(group)
        number.update((result, group.place) for member in group.members for result in member.results)
    return [group for group in found if len(group.members) > 1]


def _are_read(members: list[Any], operations: list[Any]) -> bool:
    """Does one of the ops, or an op in its regions, read a member's result?"""
    results = {result for member in members for result in member.results}

    def reads(op: Any) -> bool:
        if any(value in results for value in op.operands):
            return True
        return any(reads(inner.operation) for region in op.regions for block in region.blocks for inner in block.operations)

    return any(map(reads, operations))


def _key(op: Any) -> Key | None:
    """Equal for all_reduces of one reduction, element type and set of groups; None where the region is not a single op."""
    inner = [o.operation.name for o in op.regions[0].blocks[0].operations]
    if len(inner) != 2:
        return None
    names = ("replica_groups", "use_global_device_ids")
    attributes = tuple(str(op.attributes[name]) if name in op.attributes else "" for name in names)
    return inner[0], str(op.operands[0].type.element_type), str("channel_handle" in op.attributes), *attributes


def _combine(members: list[Any], place: Any) -> None:
    """Puts one all_reduce of all members' operands in the place of a member."""
    ir = shim.ir()
    operands = [value for op in members for value in op.operands]
    with ir.InsertionPoint(place), place.location:
        attributes = {name: place.attributes[name] for name in place.attributes}
        combined = ir.Operation.create(ALL_REDUCE, [v.type for v in operands], operands, attributes, regions=1)
    place.regions[0].blocks[0].append_to(combined.regions[0])
    results = iter(combined.results)
    for op in members:
        for result in op.results:
            result.replace_all_uses_with(next(results))
        op.erase()
