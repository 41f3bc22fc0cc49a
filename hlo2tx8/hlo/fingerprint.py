"""What makes two fusions, or groups, equal: the same ops on the same values with the same attributes and types."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import cast

from xdsl.ir import Operation, Region, SSAValue

from hlo2tx8.dialects.nested import ops_of

_NAMES = ("fusion_name", "loc", "sym_name")


@dataclass(frozen=True, eq=False)
class HashedOnce:
    """A key of many parts, such as a fingerprint; a tuple hashes all of them whenever it is looked up."""

    key: Hashable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashedOnce) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)


def fingerprint(fusion: Operation) -> Hashable:
    """Equal for fusions that differ only in the names of values, functions and places."""
    numbers: dict[SSAValue, int] = {}
    return tuple(_region_key(region, numbers) for region in fusion.regions)


def _op_key(op: Operation, numbers: dict[SSAValue, int]) -> Hashable:
    read = tuple(numbers.get(value, value) for value in op.operands)
    facts = tuple((k, v) for k, v in sorted(op.properties.items()) if k not in _NAMES)
    extra = tuple((k, v) for k, v in sorted(op.attributes.items()) if k not in _NAMES)
    inner = tuple(_region_key(region, numbers) for region in op.regions)
    for value in op.results:
        numbers[value] = len(numbers)
    return (op.name, read, facts, extra, tuple(op.result_types), inner)


def _region_key(region: Region, numbers: dict[SSAValue, int]) -> Hashable:
    blocks: list[Hashable] = []
    for block in region.blocks:
        for arg in block.args:
            numbers[arg] = len(numbers)
        types = tuple(arg.type for arg in block.args)
        blocks.append((types, tuple(_op_key(op, numbers) for op in ops_of(block))))
    return tuple(blocks)


def content_key(op: Operation, *more: object) -> str:
    """The same as a text that is equal in all processes, with what else decides how the op is compiled."""
    return sha256(repr((_plain(fingerprint(op)), more)).encode()).hexdigest()


def _plain(key: Hashable) -> object:
    if isinstance(key, tuple):
        return [_plain(part) for part in cast("tuple[Hashable, ...]", key)]
    return str(key)
