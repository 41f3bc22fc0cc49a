"""Loads and stores of one step whose elements lie between each other's: as one run in DDR, which TDMA takes apart or puts together.

    %a = vec.load %x[%o] {strides = [128, 2]}           one RDMA of whole rows
    %b = vec.load %x[%o + 1] {strides = [128, 2]}       TDMA takes out each
    vec.store %a, %r[%p] {strides = [128, 2]}           TDMA puts both into one vector by turns
    vec.store %b, %r[%p + 1] {strides = [128, 2]}       one WDMA of that in whole rows

By itself each would be read with what lies between its elements, and stored in runs of one element.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias, TypeVar

from xdsl.ir import Block, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.dialects import vec
from hlo2tx8.lower.box_levels import BoxLevel, Size, dense_strides
from hlo2tx8.lower.select.resident import distance, is_resident
from hlo2tx8.lower.select.step_builder import StepBuilder

Access: TypeAlias = vec.LoadOp | vec.StoreOp
AccessT = TypeVar("AccessT", bound=Access)


@dataclass
class ByTurns:
    """The groups of such accesses of a box. `loads`: for each load its group, in the order of the elements. `stores`: for the last
    store of a group all of it in that order, for the others none. `loaded`: what loads give whose group has been loaded."""

    loads: dict[vec.LoadOp, tuple[vec.LoadOp, ...]] = field(default_factory=dict[vec.LoadOp, tuple[vec.LoadOp, ...]])
    stores: dict[vec.StoreOp, tuple[vec.StoreOp, ...]] = field(default_factory=dict[vec.StoreOp, tuple[vec.StoreOp, ...]])
    loaded: dict[vec.LoadOp, SSAValue] = field(default_factory=dict[vec.LoadOp, SSAValue])

    @staticmethod
    def of(block: Block, shape: Sequence[int]) -> "ByTurns":
        """Those of a box of that shape; loads with clips are in no group."""
        stores = [op for op in block.ops if isinstance(op, vec.StoreOp) and not is_resident(op.target)]
        loads = [op for op in block.ops if isinstance(op, vec.LoadOp) and not is_resident(op.source) and not vec.ints(op.clipped)]
        stored = _by_turns({op: (op.target, op.value.type) for op in stores}, shape)
        loaded = _by_turns({op: (op.source, op.result.type) for op in loads}, shape)
        return ByTurns(
            {op: group for group in loaded for op in group},
            {op: group if op is max(group, key=stores.index) else () for group in stored for op in group},
        )

    def load(self, step: StepBuilder, op: vec.LoadOp, source: SSAValue, offset: Size, fmt: Format) -> SSAValue:
        """What a load of a group gives; the first one loads what all of them give."""
        if op not in self.loaded:
            group = self.loads[op]
            first = step.add(offset, -group.index(op))
            vectors = load_by_turns(step, source, first, len(group), vec.ints(op.strides), fmt)
            self.loaded |= zip(group, vectors, strict=True)
        return self.loaded[op]


def _by_turns(accesses: Mapping[AccessT, object], shape: Sequence[int]) -> list[tuple[AccessT, ...]]:
    """The groups of accesses to the same tensor that fill together all that lies between two elements of one of them."""
    alike: dict[object, list[AccessT]] = {}
    for op, tensor in accesses.items():
        alike.setdefault((tensor, vec.ints(op.strides)), []).append(op)
    return [ordered for group in alike.values() if (ordered := _in_order(group, shape)) is not None]


def _in_order(group: Sequence[AccessT], shape: Sequence[int]) -> tuple[AccessT, ...] | None:
    """Accesses by the places of their elements; None if they leave something out, or lanes repeat an element."""
    count = len(group)
    moving = [stride for stride, size in zip(vec.ints(group[0].strides), shape, strict=True) if size > 1]
    if count < 2 or not moving or moving[-1] != count or any(stride < count or stride % count for stride in moving):
        return None
    apart = [distance(group[0].offset, op.offset) for op in group]
    known = [place for place in apart if place is not None]
    if len(known) < count or sorted(known) != list(range(min(known), min(known) + count)):
        return None
    return tuple(op for _, op in sorted(zip(known, group, strict=True), key=lambda pair: pair[0]))


def load_by_turns(
    step: StepBuilder, source: SSAValue, offset: Size, count: int, strides: Sequence[int], fmt: Format
) -> list[SSAValue]:
    """So many vectors from DDR, whose elements are there by turns from that place on."""
    dense, together = dense_strides(step.extents, step), step.alloc(fmt, prod(step.shape) * count)
    runs = [BoxLevel(extent, (stride,)) for extent, stride in zip(step.extents, strides, strict=True)]
    step.load(together, source, offset, [*runs, BoxLevel(count, (1,))], fmt)
    found = [step.alloc(fmt) for _ in range(count)]
    for place, vector in enumerate(found):
        levels = [BoxLevel(extent, (step(own, count), own)) for extent, own in zip(step.extents, dense, strict=True)]
        step.move(vector, step.at(together, place * fmt.bytes), levels, fmt)
    return found


def store_by_turns(
    step: StepBuilder, target: SSAValue, offset: Size, sources: Sequence[SSAValue], strides: Sequence[int], fmt: Format
) -> None:
    """Vectors to DDR, element by element of each by turns, from the place of the first one on."""
    count, dense = len(sources), dense_strides(step.extents, step)
    together = step.alloc(fmt, prod(step.shape) * count)
    for place, source in enumerate(sources):
        levels = [BoxLevel(extent, (own, step(own, count))) for extent, own in zip(step.extents, dense, strict=True)]
        step.move(step.at(together, place * fmt.bytes), source, levels, fmt)
    runs = [BoxLevel(extent, (stride,)) for extent, stride in zip(step.extents, strides, strict=True)]
    step.store(target, offset, together, [*runs, BoxLevel(count, (1,))], fmt)
