"""The backend that computes on the chip: a segment of an epoch is a module, traced from the formulas that numpy computes with."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from hlo2tx8.compiler.driver import chip_of, load_source
from hlo2tx8.errors import Hlo2tx8Error, InputError, NetlistRunError, UnsupportedError, UnsupportedOp
from hlo2tx8.frontend.calling import calling_of
from hlo2tx8.frontend.sources import traced
from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.netlist.epochs import Epoch, Made, Segment, compute
from hlo2tx8.netlist.evaluate import Rules, input_of
from hlo2tx8.netlist.formats import Array, Format
from hlo2tx8.netlist.infer import input_shape
from hlo2tx8.netlist.model import Op, Queue, Where
from hlo2tx8.netlist.placement import Placement, place
from hlo2tx8.netlist.products import listed
from hlo2tx8.netlist.rearrange import rows_of
from hlo2tx8.netlist.segment_function import function_of
from hlo2tx8.netlist.shapes import Shape
from hlo2tx8.netlist.storage import Lying, at_rest, to_device, to_host
from hlo2tx8.netlist.tensors import Tensor
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.levels import run_level

SMALLEST_LIST = 16
MOST_INPUTS, MOST_CALLS = 8, 256
"""Inputs that a program takes at once, and ops that it has for all of them."""


@dataclass(frozen=True)
class AtLevel:
    """A function whose IR runs at a level above programs."""

    source: Any
    options: Options

    def __call__(self, *args: object) -> Any:
        """What the function returns."""
        calling = calling_of(self.source)
        assert calling is not None
        leaves = [np.asarray(leaf) for leaf in calling.leaves(args, {})]
        return calling.results_of(run_level(partial(load_source, self.source), self.options, leaves))


Compiled: TypeAlias = Executable | AtLevel
Key: TypeAlias = tuple[str, tuple[int, ...], int]
"""A segment's name, the lengths of its lists of sparse products, and how many inputs it takes."""


@dataclass
class Tx8:
    """The backend: what segments were compiled to, and how often that ran.

    `options.until` is the level that runs. `placement`: ops run on tiles of their own as the netlist says, or all on all tiles.
    """

    rules: Rules
    options: Options
    placement: Where = "netlist"
    compiled: dict[Key, Compiled] = field(default_factory=dict[Key, Compiled])
    runs: Counter[Key] = field(default_factory=Counter[Key])
    is_fixed: bool = False
    """Nothing that is not compiled yet may be."""

    def prepare(self, epochs: Sequence[Epoch]) -> None:
        """Compile what runs, but for segments with lists, whose lengths are in what the host pushes.

        UnsupportedError for ops that cannot be computed; errors of the compiler name the graph.
        """
        segments = [(segment, self.inputs_at_once(epoch)) for epoch in epochs for segment in epoch.segments]
        if wrong := [op for segment, _ in segments for op in refused(segment)]:
            raise UnsupportedError(wrong)
        for segment, inputs in segments:
            if not any(map(is_sparse, segment.ops)):
                self.executable(segment, {}, inputs)

    def inputs_at_once(self, epoch: Epoch) -> int:
        """How many inputs of an epoch are under way at once: where all ops are on the mesh, and none waits for the host."""
        (segment, *others), count = epoch.segments, epoch.graphs[0].input_count
        is_one = others or not epoch.is_streaming or any(map(is_sparse, segment.ops)) or self.placement == "chip"
        most = 1 if is_one else min(count, MOST_INPUTS, MOST_CALLS // max(1, len(segment.ops)))
        return next(number for number in range(max(1, most), 0, -1) if count % number == 0)

    def executable(self, segment: Segment, lists: Mapping[str, Sequence[Array]], inputs: int = 1) -> Key | None:
        """Where to find what a segment is compiled to for lists of these lengths and so many inputs, which it now is; None if it
        makes nothing."""
        if not (segment.leaves or segment.feeds):
            return None
        key = segment.name, tuple(part.shape[1] for op in sorted(lists) for part in lists[op]), inputs
        if key not in self.compiled:
            if self.is_fixed:
                raise InputError("E1004", f"graph {segment.name}: is not compiled for lists of {list(key[1])} sparse products")
            self.compiled[key] = self._compile(segment, lists, inputs)
        return key

    def place(self, segment: Segment) -> Placement:
        """Where the netlist has the ops of a segment."""
        return place(segment.ops, chip_of(self.options).mesh)

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        """One input of a segment on the emulator; see `compute`."""
        (made,) = self.run_several(segment, [sources], before)
        return made

    def run_several(
        self, segment: Segment, sources: Sequence[Mapping[str, Tensor]], before: Mapping[str, Array] = MappingProxyType({})
    ) -> list[Made]:
        """So many inputs of a segment, of which only one if it has lists of sparse products or sums."""
        lists = self.lists_of(segment, sources[0])
        key = self.executable(segment, lists, len(sources))
        given = [self._lying(segment, own) for own in sources]
        if key is None:
            return [Made({}, {}, {})] * len(sources)
        sums = {name: before.get(name, np.zeros(shape, np.float32)) for name, shape in _sums(segment).items()}
        results: Sequence[tuple[dict[str, Any], ...]] = self.compiled[key](given, sums, lists)
        self.runs[key] += 1
        formats = {op.name: op.out_df for op in segment.ops} | {q.name: q.df for queues in segment.feeds.values() for q in queues}
        found: list[Made] = []
        for left, made, pushed in results:
            back = {name: to_host(array, formats[name]) for name, array in (*left.items(), *pushed.items())}
            found.append(Made({name: back[name] for name in left}, dict(made), {name: back[name] for name in pushed}))
        return found

    def _lying(self, segment: Segment, sources: Mapping[str, Tensor]) -> dict[str, Lying]:
        """What a segment reads, as it lies in queues. NetlistRunError for what the chip cannot read."""
        for op in segment.ops:
            if op.type == "embedding" and op.inputs[1] in sources:
                table = input_shape(op, 0, _shape_of(segment, op.inputs[0]))
                try:
                    rows_of(op, table.elements[1], input_of(op, 1, sources[op.inputs[1]], self.rules).data)
                except ValueError as error:
                    raise NetlistRunError(f"op {op.name}: {error}") from None
        given: dict[str, Lying] = {}
        for name, format in formats_of(segment).items():
            try:
                given[name] = to_device(sources[name], format)
            except ValueError as error:
                raise NetlistRunError(f"{name}: {error}") from None
        return given

    def lists_of(self, segment: Segment, sources: Mapping[str, Tensor]) -> dict[str, tuple[Array, ...]]:
        """What the encodings of sparse products list, by op."""
        return {op.name: self._lists(segment, op, sources) for op in segment.ops if is_sparse(op)}

    def _lists(self, segment: Segment, op: Op, sources: Mapping[str, Tensor]) -> tuple[Array, ...]:
        """Of an encoding; the lists are as long as a power of two, what they do not list is added nowhere."""
        if op.inputs[2] not in sources:
            raise UnsupportedError(refused(segment))
        encoding = input_of(op, 2, sources[op.inputs[2]], self.rules).data
        weights = np.broadcast_to(np.uint8(0), input_shape(op, 0, _shape_of(segment, op.inputs[0])).elements)
        try:
            found = listed(op, weights, encoding)
        except ValueError as error:
            raise NetlistRunError(f"op {op.name}: {error}") from None
        size = max(SMALLEST_LIST, 1 << (max(part.shape[1] for part in found) - 1).bit_length())
        nowhere = np.array([[op.t * op.shape.rt], [0], [0]], np.int32)
        return tuple(np.concatenate([part, nowhere.repeat(size - part.shape[1], axis=1)], axis=1) for part in found)

    def _compile(self, segment: Segment, lists: Mapping[str, Sequence[Array]], inputs: int) -> Compiled:
        given = {
            name: at_rest(np.zeros(_shape_of(segment, name).elements, np.float32), f) for name, f in formats_of(segment).items()
        }
        sums = {name: np.zeros(shape, np.float32) for name, shape in _sums(segment).items()}
        try:
            tiles = self.place(segment).tiles if self.placement == "netlist" else dict[str, Rectangle]()
            function = function_of(segment, formats_of(segment), self.rules, tiles)
            source = traced(function, ([given] * inputs, sums, dict(lists)))
            return compile_source(source, self.options) if self.options.until is Level.PROGRAM else AtLevel(source, self.options)
        except Hlo2tx8Error as error:
            error.message = f"graph {segment.name}: {error.message}"
            raise


@dataclass(frozen=True)
class Rehearsal:
    """A backend that compiles what the chip would run, and computes with numpy."""

    chip: Tx8

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        """One input of a segment; see `compute`."""
        if any(map(is_sparse, segment.ops)):
            self.chip.executable(segment, self.chip.lists_of(segment, sources))
        return compute(segment, sources, before, self.chip.rules)


def refused(segment: Segment) -> list[UnsupportedOp]:
    """Ops that cannot be computed on the chip."""
    return [
        UnsupportedOp(op.type, (op.name,), "its encoding is made by an op, and the host has to read it")
        for op in segment.ops
        if is_sparse(op) and not isinstance(segment.sources.get(op.inputs[2]), Queue)
    ]


def is_sparse(op: Op) -> bool:
    """Is the op a product that an encoding lists?"""
    return bool(op.attributes.get("identity"))


def _shape_of(segment: Segment, name: str) -> Shape:
    ops = {op.name: op for op in segment.ops}
    return (segment.sources.get(name) or ops[name]).shape


def formats_of(segment: Segment) -> dict[str, Format]:
    """The formats of what a segment reads, but for encodings."""
    encodings = {op.inputs[2] for op in segment.ops if is_sparse(op)}
    sources = segment.sources.items()
    return {name: s.df if isinstance(s, Queue) else s.out_df for name, s in sources if name not in encodings}


def _sums(segment: Segment) -> dict[str, tuple[int, ...]]:
    return {op.name: op.shape.elements for op in segment.ops if op.gradient_op}
