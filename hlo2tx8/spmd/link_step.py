"""`LinkStep`: a collective op on the chips: exchanges over the links, and a program that combines what has arrived.

What moves is what the plan says, from the memory of one chip to that of another; what is combined is combined by a program that was
compiled from the op's region, as any other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, TensorType, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh, Exchange
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.stablehlo import OPS
from hlo2tx8.errors import HostError
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.spmd.collectives import DISAGREE, Array, DeviceArrays
from hlo2tx8.spmd.link_plan import BoxMove, LinkPlan, Shape, index_of, link_plan, shape_of, size_of
from hlo2tx8.spmd.pod_launch import Piece, Run

Delivery = tuple[tuple[int, ...], tuple[BoxMove, ...]]
"""Chips that get the same, and the moves to the first of them."""


@dataclass(frozen=True)
class LinkStep:
    """A plan that runs; `programs` combine parts, by their number. `exchanges` say what the links do."""

    name: str
    plan: LinkPlan
    results: tuple[tuple[Shape, np.dtype[Any]], ...]
    programs: Mapping[int, Executable]
    exchanges: tuple[Exchange, ...]
    place: str = ""

    @property
    def link_cycles(self) -> float:
        """Cycles of its exchanges."""
        return sum(each.cycles for each in self.exchanges)

    def sent_by(self, number: int) -> int:
        """Bytes that leave a chip, its own and those it hands on."""
        return sum(each.sent_by(number) for each in self.exchanges)

    def cycles_of(self, number: int) -> float:
        """Cycles of its exchanges in which a chip sends anything."""
        return sum(each.cycles for each in self.exchanges if each.sent_by(number))

    def run(self, arrays: DeviceArrays, run: Run) -> DeviceArrays:
        """The results of every chip here that takes part; zeros where nothing arrives. HostError E1010: only some of a group do."""
        plan = self.plan
        for group in plan.groups:
            if len({chip in arrays for chip in group if run.is_here(chip)}) > 1:
                raise HostError("E1010", DISAGREE)
        types = [dtype for _, dtype in self.results]
        flat = {chip: [a.reshape(-1) for a in own] for chip, own in arrays.items()} if plan.is_flat else arrays
        found = _delivered(plan.moves, flat, plan.shapes, types, run.at(0))
        for count, program in self.programs.items():
            size = count * len(types)
            found |= run_on_all(program, {chip: own for chip, own in found.items() if len(own) == size}, run)
        if plan.spread:
            found = _delivered(plan.spread, found, plan.spread_shapes, types, run.at(1))
        return {
            chip: [a.reshape(shape) for a, (shape, _) in zip(found[chip], self.results, strict=True)]
            if chip in found
            else [np.zeros(*each) for each in self.results]
            for chip in arrays
        }


def link_step(
    op: Operation, counts: tuple[int, int], mesh: ChipMesh, chip: Chip, compiled: Callable[[ModuleOp], Executable]
) -> LinkStep:
    """The step of a collective op or reshard; `counts` of replicas and partitions."""
    plan = link_plan(op, *counts, mesh, chip)
    tensors = [tensor_like(value.type) for value in op.operands]
    programs = {count: compiled(_combination(op, plan, count)) for count in sorted(plan.parts) if count > 1}
    exchanges = plan.exchanges([t.dtype.itemsize for t in tensors], mesh, chip)
    results = tuple((tensor_like(value.type).shape, tensor_like(value.type).dtype) for value in op.results)
    return LinkStep(_name_of(op), plan, results, programs, exchanges, origin(op))


def _name_of(op: Operation) -> str:
    return "reshard" if op.name == "stablehlo.custom_call" else op.name.partition(".")[2]


def _combination(op: Operation, plan: LinkPlan, num_parts: int) -> ModuleOp:
    """The module that combines parts 0, 1, ... of each operand, in this order, by the op's region; a reshard adds them."""
    elements = [as_tensor(value.type).element_type for value in op.operands]
    types = [TensorType(element, shape) for element, shape in zip(elements, plan.shapes, strict=True)]
    block = Block(arg_types=[type_ for type_ in types for _ in range(num_parts)])
    results: list[SSAValue] = []
    for number, (element, type_) in enumerate(zip(elements, types, strict=True)):
        first, *others = block.args[number * num_parts : (number + 1) * num_parts]
        total: SSAValue = first
        for other in others:
            dimensions: dict[str, Attribute] = {"dimensions": DenseArrayBase.from_list(i64, range(len(type_.get_shape())))}
            block.add_op(mapped := OPS["map"]([total, other], [type_], dimensions, [_region(op, element)]))
            total = mapped.results[0]
        results.append(total)
    block.add_op(ReturnOp(*results))
    main = FuncOp("main", (block.arg_types, types), Region(block))
    return ModuleOp([main], sym_name=StringAttr(f"combine_{_name_of(op)}"))


def _region(op: Operation, element: Attribute) -> Region:
    if op.regions:
        return op.regions[0].clone()
    body = BodyBuilder([element, element])
    return body.region(body.emit("add", body.args))


def run_on_all(program: Executable, arrays: DeviceArrays, run: Run) -> DeviceArrays:
    """The program on every chip here; once for all of them if they share all input arrays."""
    if not arrays:
        return {}
    first = next(iter(arrays.values()))
    if all(a is b for own in arrays.values() for a, b in zip(own, first, strict=True)):
        return dict.fromkeys(arrays, program.launch(program.signature.check(first), run.progress))
    return {device: program.launch(program.signature.check(own), run.progress) for device, own in arrays.items()}


def _delivered(
    moves: Sequence[BoxMove], arrays: DeviceArrays, shapes: Sequence[Shape], types: Sequence[np.dtype[Any]], run: Run
) -> DeviceArrays:
    """What arrives at every chip here that takes part: for each operand its parts. Chips that get the same share their arrays."""
    brought = run.exchange(moves, arrays, types)
    of_target: dict[int, list[BoxMove]] = {}
    for move in moves:
        of_target.setdefault(move.target, []).append(move)
    made: dict[tuple[tuple[object, ...], ...], list[Array]] = {}
    found: DeviceArrays = {}
    for target, own in of_target.items():
        if target not in arrays:
            continue
        pieces = [_piece(move, arrays, brought, types) for move in own]
        key = tuple((m.operand, id(given), m.taken, m.put, m.part) for m, (given, _) in zip(own, pieces, strict=True))
        if key not in made:
            made[key] = _filled(own, [box for _, box in pieces], shapes, types)
        found[target] = made[key]
    return found


def _piece(
    move: BoxMove, arrays: DeviceArrays, brought: Mapping[Piece, Array], types: Sequence[np.dtype[Any]]
) -> tuple[Array, Array]:
    """The array that is moved from, and its box that is moved; HostError E1010 if its chip takes no part."""
    if move.source in arrays:
        given = arrays[move.source][move.operand]
        return given, given if given.shape == shape_of(move.taken) else given[index_of(move.taken)]
    if not size_of(move.taken):
        box = np.zeros(shape_of(move.taken), types[move.operand])
    elif (piece := (move.operand, move.source, move.taken)) in brought:
        box = brought[piece]
    else:
        raise HostError("E1010", DISAGREE)
    return box, box


def _filled(
    moves: Sequence[BoxMove], boxes: Sequence[Array], shapes: Sequence[Shape], types: Sequence[np.dtype[Any]]
) -> list[Array]:
    slots: dict[tuple[int, int], Array] = {}
    for move, box in zip(moves, boxes, strict=True):
        shape, slot = shapes[move.operand], (move.operand, move.part)
        is_whole = box.shape == shape and size_of(move.put) == box.size and box.flags.c_contiguous
        if is_whole and slot not in slots:
            slots[slot] = box
            continue
        if slot not in slots:
            slots[slot] = np.zeros(shape, types[move.operand])
        slots[slot][index_of(move.put)] = box
    parts = range(1 + max(part for _, part in slots))
    return [slots[k, n] if (k, n) in slots else np.zeros(shape, types[k]) for k, shape in enumerate(shapes) for n in parts]
