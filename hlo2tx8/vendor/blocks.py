"""A program's records as a tree of loops, branches and functions, and which of its registers live from one part to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlo2tx8.device.isa.encoding import BEGINS, Record, Register
from hlo2tx8.device.isa.kc_control import KcExit, KcIf, KcLoop
from hlo2tx8.device.timing.needed import is_scalar

FIXED = frozenset({0, 1})
"""Registers that nothing sets: zero, and the number of the tile."""


@dataclass(frozen=True)
class RecordNode:
    """A record, by its index; of one that begins a block what is inside."""

    index: int
    record: Record
    body: "tuple[RecordNode, ...]" = ()


def tree(records: Sequence[Record]) -> tuple[RecordNode, ...]:
    """The nodes of a program whose blocks nest, without ends."""
    open_blocks: list[tuple[int, list[RecordNode]]] = [(-1, [])]
    for index, record in enumerate(records):
        if record.kind in BEGINS.values():
            open_blocks.append((index, []))
        elif record.kind in BEGINS:
            start, body = open_blocks.pop()
            open_blocks[-1][1].append(RecordNode(start, records[start], tuple(body)))
        else:
            open_blocks[-1][1].append(RecordNode(index, record))
    return tuple(open_blocks[0][1])


def sets(record: Record) -> int | None:
    """The register that a record sets, None of any other."""
    target = record.fields["rd"] if is_scalar(record.kind) or record.kind is KcLoop else None
    return None if target is None else target.number if isinstance(target, Register) else target


def reads(record: Record) -> frozenset[int]:
    """The registers that a record reads."""
    return frozenset(v.number for name, v in record.fields.items() if isinstance(v, Register) and name != "rd") - FIXED


def all_sets(nodes: Sequence[RecordNode]) -> frozenset[int]:
    """The registers that any of these set."""
    found = {r for node in nodes if (r := sets(node.record)) is not None}
    return frozenset(found.union(*(all_sets(node.body) for node in nodes)))


def all_reads(nodes: Sequence[RecordNode]) -> frozenset[int]:
    """The registers that any of these read."""
    return frozenset[int]().union(*(reads(node.record) | all_reads(node.body) for node in nodes))


@dataclass(frozen=True)
class LiveRegisters:
    """`shared` registers live from one part of the program to another; `after` a loop, by its index, live those read behind it."""

    shared: frozenset[int]
    after: Mapping[int, frozenset[int]]


def liveness(parts: Sequence[Sequence[RecordNode]]) -> LiveRegisters:
    """Of parts that follow each other and have no functions."""
    after: dict[int, frozenset[int]] = {}
    shared = live = frozenset[int]()
    for part in reversed(parts):
        live = _before(part, live, frozenset(), after)
        shared |= live
    return LiveRegisters(shared, after)


def _before(
    nodes: Sequence[RecordNode], live: frozenset[int], left: frozenset[int], after: dict[int, frozenset[int]]
) -> frozenset[int]:
    """What lives before these, if `live` lives behind them and `left` behind the loop they are in."""
    for node in reversed(nodes):
        record, target = node.record, sets(node.record)
        if record.kind is KcIf:
            live |= _before(node.body, live, left, after)
        elif record.kind is KcLoop:
            after[node.index] = behind = live
            entry, seen = frozenset[int](), None
            while entry != seen:
                seen = entry
                entry = _before(node.body, behind | entry, behind, after) - {target or 0}
            live = behind | entry
        elif record.kind is KcExit:
            live |= left
        elif target is not None:
            live -= {target}
        live |= reads(record)
    return live
