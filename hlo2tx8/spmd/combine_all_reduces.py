"""Sums over the same devices in one exchange, as links take long to start.

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
    """all_reduces that can be one, in order, and the number of the operation in the place of which that can be."""

    members: list[Any]
    place: int


def merge_all_reduces(op: Any) -> None:
    """In all blocks of an operation: each all_reduce joins the last one like it, the earlier or the later in the other's place."""
    for region in op.regions:
        for block in region.blocks:
            operations = [inner.operation for inner in block.operations]
            for group in _groups(operations):
                _merge(group.members, operations[group.place])
            for inner in block.operations:
                if inner.operation.name != ALL_REDUCE:
                    merge_all_reduces(inner.operation)


def _groups(operations: list[Any]) -> list[_Group]:
    """The all_reduces of a block that can be one."""
    number = {result: i for i, op in enumerate(operations) for result in op.results}
    open_: dict[Key, _Group] = {}
    found: list[_Group] = []
    for i, op in enumerate(operations):
        key = _key(op) if op.name == ALL_REDUCE else None
        if key is None:
            continue
        group = open_.get(key)
        if group is not None and all(number.get(value, -1) < group.place for value in op.operands):
            group.members.append(op)
        elif group is not None and not _are_read(group.members, operations[group.place : i + 1]):
            group.members.append(op)
            group.place = i
        else:
            group = open_[key] = _Group([op], i)
            found.append(group)
        number.update((result, group.place) for member in group.members for result in member.results)
    return [group for group in found if len(group.members) > 1]


def _are_read(members: list[Any], operations: list[Any]) -> bool:
    """Does one of the operations, or one inside of it, read what they give?"""
    results = {result for member in members for result in member.results}

    def reads(op: Any) -> bool:
        if any(value in results for value in op.operands):
            return True
        return any(reads(inner.operation) for region in op.regions for block in region.blocks for inner in block.operations)

    return any(map(reads, operations))


def _key(op: Any) -> Key | None:
    """Equal for those that combine alike, by one operation, with the same devices."""
    inner = [o.operation.name for o in op.regions[0].blocks[0].operations]
    if len(inner) != 2:
        return None
    names = ("replica_groups", "use_global_device_ids")
    attributes = tuple(str(op.attributes[name]) if name in op.attributes else "" for name in names)
    return inner[0], str(op.operands[0].type.element_type), str("channel_handle" in op.attributes), *attributes


def _merge(members: list[Any], place: Any) -> None:
    """Puts one all_reduce in the place of a member."""
    ir = shim.ir()
    operands = [value for op in members for value in op.operands]
    with ir.InsertionPoint(place), place.location:
        attributes = {name: place.attributes[name] for name in place.attributes}
        merged = ir.Operation.create(ALL_REDUCE, [v.type for v in operands], operands, attributes, regions=1)
    place.regions[0].blocks[0].append_to(merged.regions[0])
    results = iter(merged.results)
    for op in members:
        for result in op.results:
            result.replace_all_uses_with(next(results))
        op.erase()
