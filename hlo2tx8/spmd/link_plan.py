"""`link_plan`: what a collective op moves over the links between chips, as boxes of arrays.

A plan is one exchange, or where values are combined two, with a program on the chips between them:

    reduce_scatter    part k of every member to member k, which combines the parts
    all_reduce        the same for equal parts of the flat arrays, and the results to all; or every array to all members, and each
                      combines them: what takes less time on the links
    the others        each box from the chip that has it to those that want it

Parts are combined in the order of the group, so that every chip has the same bits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh, Exchange, Packet, exchange
from hlo2tx8.dialects.hlo import decode_attributes, origin
from hlo2tx8.errors import InputError
from hlo2tx8.hlo.host_ops import COLLECTIVES
from hlo2tx8.hlo.lookup import TensorLike, tensor_like
from hlo2tx8.spmd.collectives import groups_of, pairs_of
from hlo2tx8.spmd.tile_assignment import RESHARD_TARGET, TileAssignment, decode_reshards

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
"""Begin and end in each dimension."""


@dataclass(frozen=True)
class BoxMove:
    """A box of an operand of one chip becomes a box of a result of another one, or of one of the parts that are combined to it."""

    operand: int
    source: int
    target: int
    taken: Box
    put: Box
    part: int = 0


@dataclass(frozen=True)
class LinkPlan:
    """`moves` fill `shapes`, of each operand; where there are several parts of it, as many as one of `parts`, chips combine them.
    `spread` moves on what they have then. `is_flat`: operands are taken as arrays of one dimension. `groups`: chips that all take
    part, or none does.
    """

    moves: tuple[BoxMove, ...]
    shapes: tuple[Shape, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    parts: frozenset[int] = frozenset()
    spread: tuple[BoxMove, ...] = ()
    spread_shapes: tuple[Shape, ...] = ()
    is_flat: bool = False

    def packets(self, item_bytes: Sequence[int]) -> list[list[Packet]]:
        """What is sent for the moves, and for those that spread what was combined; `item_bytes` of the operands."""
        return [[*_packets(moves, item_bytes)] for moves in ((self.moves, self.spread) if self.spread else (self.moves,))]

    def exchanges(self, item_bytes: Sequence[int], mesh: ChipMesh, chip: Chip) -> tuple[Exchange, ...]:
        """The time of each of these."""
        return tuple(exchange(packets, mesh, chip) for packets in self.packets(item_bytes))


def size_of(box: Box) -> int:
    """How many elements there are in a box."""
    return prod(shape_of(box))


def shape_of(box: Box) -> Shape:
    """The sizes of a box."""
    return tuple(end - begin for begin, end in box)


def index_of(box: Box) -> Any:
    """What a box is in numpy's terms."""
    return (*(slice(begin, end) for begin, end in box), ...)


def _packets(moves: Sequence[BoxMove], item_bytes: Sequence[int]) -> Iterator[Packet]:
    """What goes from one chip to several is one packet."""
    targets: dict[tuple[int, int, Box], dict[int, None]] = {}
    for move in moves:
        if size_of(move.taken):
            targets.setdefault((move.operand, move.source, move.taken), {})[move.target] = None
    for (operand, source, box), found in targets.items():
        yield Packet(source, tuple(found), size_of(box) * item_bytes[operand])


def link_plan(op: Operation, replicas: int, partitions: int, mesh: ChipMesh, chip: Chip) -> LinkPlan:
    """The plan of a collective op or reshard; InputError if the op is for another number of chips."""
    plan = _plan(op, replicas, partitions, mesh, chip)
    named = {device for move in plan.moves for device in (move.source, move.target)}.union(*plan.groups)
    if named and max(named) >= replicas * partitions:
        raise InputError("E1004", f"{op.name} names chip {max(named)}, and there are {replicas * partitions}", origin=origin(op))
    filled: dict[tuple[int, int, int], int] = {}
    for move in plan.moves:
        place = move.target, move.operand, move.part
        filled[place] = filled.get(place, 0) + size_of(move.put)
    shapes = plan.shapes if not plan.is_flat and op.name != "stablehlo.custom_call" else ()
    if any(filled[place] != prod(shapes[place[1]]) for place in (filled if shapes else ())):
        sizes = ", ".join(sorted({str(len(group)) for group in plan.groups}))
        raise InputError("E1004", f"the arrays of {op.name} are not for groups of {sizes} chips", origin=origin(op))
    return plan


def link_packets(module: ModuleOp, counts: tuple[int, int], mesh: ChipMesh, chip: Chip) -> list[Packet]:
    """What all collective ops and reshards of a module send, in order."""
    found: list[Packet] = []
    for op in module.walk():
        if op.name in COLLECTIVES or is_reshard(op):
            items = [tensor_like(value.type).dtype.itemsize for value in op.operands]
            found += [packet for each in link_plan(op, *counts, mesh, chip).packets(items) for packet in each]
    return found


def is_reshard(op: Operation) -> bool:
    """Is the op a reshard?"""
    return op.name == "stablehlo.custom_call" and decode_attributes(op).get("call_target_name") == RESHARD_TARGET


def _plan(op: Operation, replicas: int, partitions: int, mesh: ChipMesh, chip: Chip) -> LinkPlan:
    tensors = [tensor_like(value.type) for value in op.operands]
    results = tuple(tensor_like(value.type).shape for value in op.results)
    attributes = decode_attributes(op)
    name = op.name.partition(".")[2]
    if name == "collective_permute":
        wholes = [(k, _whole(t.shape)) for k, t in enumerate(tensors)]
        pairs = pairs_of(op, replicas, partitions)
        return LinkPlan(tuple(BoxMove(k, s, t, box, box) for s, t in pairs for k, box in wholes), results)
    if name == "custom_call":
        return _reshard(str(attributes["backend_config"]), tensors[0], mesh)
    groups = groups_of(op, replicas, partitions)
    if name == "all_reduce":
        sizes = [prod(t.shape) for t in tensors]
        plans = [_all_to_members(groups, sizes)]
        if len(plans[0].parts) == 1:
            plans.append(_parts_to_members(groups, sizes))
        items = [t.dtype.itemsize for t in tensors]
        return min(plans, key=lambda plan: sum(each.cycles for each in plan.exchanges(items, mesh, chip)))

    def moves(of_pair: Callable[[int, int, int, Shape], tuple[Box, Box, int]]) -> Iterator[BoxMove]:
        """What goes from each member of a group to each, by their places in it and their number."""
        for group in groups:
            for (i, source), (j, target), (k, t) in product(enumerate(group), enumerate(group), enumerate(tensors)):
                taken, put, part = of_pair(i, j, len(group), t.shape)
                yield BoxMove(k, source, target, taken, put, part)

    if name == "all_gather":
        dim = int(attributes["all_gather_dim"])
        found = moves(lambda i, j, n, shape: (_whole(shape), _part(_grown(shape, dim, n), dim, i, n), 0))
        return LinkPlan(tuple(found), results, groups)
    if name == "all_to_all":
        split, joined = int(attributes["split_dimension"]), int(attributes["concat_dimension"])

        def exchanged(i: int, j: int, n: int, shape: Shape) -> tuple[Box, Box, int]:
            whole = list(shape)
            whole[split] //= n
            return _part(shape, split, j, n), _part(_grown(tuple(whole), joined, n), joined, i, n), 0

        return LinkPlan(tuple(moves(exchanged)), results, groups)
    if name == "reduce_scatter":
        dim = int(attributes["scatter_dimension"])
        found = moves(lambda i, j, n, shape: (_part(shape, dim, j, n), _part(shape, dim, 0, n), i))
        return LinkPlan(tuple(found), results, groups, frozenset(map(len, groups)))
    found = [
        BoxMove(k, group[0], target, _whole(s), _whole(s)) for group in groups for target in group for k, s in enumerate(results)
    ]
    return LinkPlan(tuple(found), results, groups)


def _all_to_members(groups: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> LinkPlan:
    """Every array goes to every member of the group, and all combine the same."""
    moves = [
        BoxMove(k, source, target, ((0, n),), ((0, n),), i)
        for group in groups
        for target in group
        for i, source in enumerate(group)
        for k, n in enumerate(sizes)
    ]
    return LinkPlan(tuple(moves), tuple((n,) for n in sizes), tuple(groups), frozenset(map(len, groups)), is_flat=True)


def _parts_to_members(groups: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> LinkPlan:
    """A part of every array goes to each member, which combines it; its result goes to all. The last parts may be shorter."""
    count = len(groups[0])
    steps = [-(-n // count) for n in sizes]
    moves: list[BoxMove] = []
    spread: list[BoxMove] = []
    for group in groups:
        for j, owner in enumerate(group):
            for k, (n, step) in enumerate(zip(sizes, steps, strict=True)):
                begin, end = min(j * step, n), min((j + 1) * step, n)
                put = ((0, end - begin),)
                if begin == end:
                    continue
                moves += [BoxMove(k, source, owner, ((begin, end),), put, i) for i, source in enumerate(group)]
                spread += [BoxMove(k, owner, target, put, ((begin, end),)) for target in group]
    shapes, wholes = (tuple((n,) for n in counts) for counts in (steps, sizes))
    return LinkPlan(tuple(moves), shapes, tuple(groups), frozenset([count]), tuple(spread), wholes, is_flat=True)


def _reshard(text: str, tensor: TensorLike, mesh: ChipMesh) -> LinkPlan:
    """Each box of a target's tile from the nearest chip that has it; parts are the summands of the source, if there are several."""
    reshards = decode_reshards(text)
    source, target = reshards[0]
    whole = tuple(n * count for n, count in zip(tensor.shape, source.tile_counts, strict=True))
    found = [move for pair in reshards for move in _resharded(*pair, whole, mesh)]
    groups = tuple(source.devices for source, _ in reshards)
    return LinkPlan(tuple(found), (target.shard_shape(whole),), groups, frozenset([source.num_summands]))


def _resharded(source: TileAssignment, target: TileAssignment, whole: Shape, mesh: ChipMesh) -> Iterator[BoxMove]:
    """Of an unreduced target a box goes to the summand whose first chip had it, else to the first, as TileAssignment says."""
    having, wanting = [*_tiles(source, whole)], [*_tiles(target, whole)]
    for box, groups in wanting:
        for own, summands in having:
            common = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, own, strict=True))
            if any(begin >= end for begin, end in common):
                continue
            owners = {device for replicas in summands for device in replicas}
            firsts = [group[0] in owners for group in groups]
            chosen = 0 if firsts[0] else max((k for k, has in enumerate(firsts) if has), default=0)
            for device in groups[chosen]:
                for part, replicas in enumerate(summands):
                    nearest = min(replicas, key=lambda r: (mesh.distance(r, device), r))
                    yield BoxMove(0, nearest, device, _within(common, own), _within(common, box), part)


def _tiles(assignment: TileAssignment, whole: Shape) -> Iterator[tuple[Box, list[tuple[int, ...]]]]:
    """The box of each tile with the chips that have it, those of each summand."""
    shape, count = assignment.shard_shape(whole), assignment.num_replicas
    owners = iter(assignment.devices)
    for index in np.ndindex(*assignment.tile_counts):
        box = tuple((i * n, (i + 1) * n) for i, n in zip(index, shape, strict=True))
        yield box, [tuple(next(owners) for _ in range(count)) for _ in range(assignment.num_summands)]


def _within(box: Box, outer: Box) -> Box:
    return tuple((begin - first, end - first) for (begin, end), (first, _) in zip(box, outer, strict=True))


def _whole(shape: Shape) -> Box:
    return tuple((0, n) for n in shape)


def _grown(shape: Shape, dim: int, count: int) -> Shape:
    return tuple(n * count if d == dim else n for d, n in enumerate(shape))


def _part(shape: Shape, dim: int, number: int, count: int) -> Box:
    """One of `count` equal parts along a dimension."""
    step = shape[dim] // count
    return tuple((number * step, (number + 1) * step) if d == dim else (0, n) for d, n in enumerate(shape))
