"""The backend that computes on the chip: a segment of an epoch is a module, traced from the formulas that numpy computes with."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.errors import Hlo2tx8Error, InputError, NetlistRunError, UnsupportedError, UnsupportedOp
from hlo2tx8.frontend.calling import calling_of
from hlo2tx8.frontend.sources import traced
from hlo2tx8.netlist.epochs import Epoch, Made, Segment, compute
from hlo2tx8.netlist.evaluate import TF32_ARCHES, Rules, input_of
from hlo2tx8.netlist.formats import FORMATS, Array, Format
from hlo2tx8.netlist.infer import input_shape
from hlo2tx8.netlist.model import Op, Queue
from hlo2tx8.netlist.products import listed
from hlo2tx8.netlist.rearrange import rows_of
from hlo2tx8.netlist.shapes import Shape
from hlo2tx8.netlist.storage import Lying, at_rest, element_of, read_back, stored, to_device, to_host
from hlo2tx8.netlist.tensors import Tensor
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.levels import run_level

SMALLEST_LIST = 16


@dataclass(frozen=True)
class ChipRules(Rules):
    """How a chip computes: products take elements as they are held, outputs are held in what their out_df is on the chip.

    `lists` are those of sparse products, by op.
    """

    lists: Mapping[str, Sequence[Array]] = field(default_factory=dict[str, Sequence[Array]])

    def factor(self, data: Array, format: Format) -> Array:
        """Elements as they are held, or as narrow as the format, if bfloat16 has its values."""
        is_narrow = element_of(format) == element_of(FORMATS["Float16_b"])
        return data.astype(element_of(format)) if data.dtype == np.float32 and is_narrow else data

    def kept(self, made: Tensor, format: Format) -> Tensor:
        """In the op's out_df. What was rounded to Tf32 once is not again, as in the reference model."""
        is_cut = made.format.name == "Tf32" and format.name == "Float32"
        return Tensor(stored(made.data, format), made.format if is_cut else format)

    def listed(self, op: Op, weights: Array, encoding: Array) -> Sequence[Array]:
        """What the host has read of the encoding."""
        return self.lists[op.name]


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
Key: TypeAlias = tuple[str, tuple[int, ...]]
"""A segment's name and the lengths of its lists of sparse products."""


@dataclass
class Tx8:
    """The backend: what segments were compiled to, and how often that ran.

    `options.until` is the level that runs.
    """

    rules: Rules
    options: Options
    compiled: dict[Key, Compiled] = field(default_factory=dict[Key, Compiled])
    runs: Counter[Key] = field(default_factory=Counter[Key])
    is_fixed: bool = False
    """Nothing that is not compiled yet may be."""

    def prepare(self, epochs: Sequence[Epoch]) -> None:
        """Compile what runs, but for segments with lists, whose lengths are in what the host pushes.

        UnsupportedError for ops that cannot be computed; errors of the compiler name the graph.
        """
        segments = [segment for epoch in epochs for segment in epoch.segments]
        if wrong := [op for segment in segments for op in refused(segment)]:
            raise UnsupportedError(wrong)
        for segment in segments:
            if not any(map(is_sparse, segment.ops)):
                self.executable(segment, {})

    def executable(self, segment: Segment, lists: Mapping[str, Sequence[Array]]) -> Key | None:
        """Where to find what a segment is compiled to for lists of these lengths, which it now is; None if it makes nothing."""
        if not (segment.leaves or segment.feeds):
            return None
        key = segment.name, tuple(part.shape[1] for op in sorted(lists) for part in lists[op])
        if key not in self.compiled:
            if self.is_fixed:
                raise InputError("E1004", f"graph {segment.name}: is not compiled for lists of {list(key[1])} sparse products")
            self.compiled[key] = self._compile(segment, lists)
        return key

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        """One input of a segment on the emulator; see `compute`."""
        lists = self.lists_of(segment, sources)
        for op in segment.ops:
            if op.type == "embedding" and op.inputs[1] in sources:
                table = input_shape(op, 0, _shape_of(segment, op.inputs[0]))
                try:
                    rows_of(op, table.elements[1], input_of(op, 1, sources[op.inputs[1]], self.rules).data)
                except ValueError as error:
                    raise NetlistRunError(f"op {op.name}: {error}") from None
        key = self.executable(segment, lists)
        if key is None:
            return Made({}, {}, {})
        given: dict[str, Lying] = {}
        for name, format in _given(segment).items():
            try:
                given[name] = to_device(sources[name], format)
            except ValueError as error:
                raise NetlistRunError(f"{name}: {error}") from None
        sums = {name: before.get(name, np.zeros(shape, np.float32)) for name, shape in _sums(segment).items()}
        results: tuple[dict[str, Any], ...] = self.compiled[key](given, sums, lists)
        left, made, pushed = results
        self.runs[key] += 1
        formats = {op.name: op.out_df for op in segment.ops} | {q.name: q.df for queues in segment.feeds.values() for q in queues}
        back = {name: to_host(array, formats[name]) for name, array in (*left.items(), *pushed.items())}
        return Made({name: back[name] for name in left}, dict(made), {name: back[name] for name in pushed})

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

    def _compile(self, segment: Segment, lists: Mapping[str, Sequence[Array]]) -> Compiled:
        given = {name: at_rest(np.zeros(_shape_of(segment, name).elements, np.float32), f) for name, f in _given(segment).items()}
        sums = {name: np.zeros(shape, np.float32) for name, shape in _sums(segment).items()}
        try:
            source = traced(self._function(segment), (given, sums, dict(lists)))
            return compile_source(source, self.options) if self.options.until is Level.PROGRAM else AtLevel(source, self.options)
        except Hlo2tx8Error as error:
            error.message = f"graph {segment.name}: {error.message}"
            raise

    def _function(self, segment: Segment) -> Callable[..., Any]:
        """A segment as a function of what lies in queues, sums and lists; it gives what it leaves, sums, and what is pushed."""
        formats = _given(segment)
        precision = None if self.rules.arch in TF32_ARCHES else "highest"

        @contextmanager
        def scope(name: str) -> Generator[None]:
            # Without functions of their own, where instructions would lose the op's name.
            with jax.named_scope(name), jax.default_matmul_precision(precision), jax.disable_jit():
                yield

        def graph(given: Mapping[str, Lying], sums: Mapping[str, Array], lists: Mapping[str, Sequence[Array]]) -> Any:
            rules = ChipRules(self.rules.arch, self.rules.fused, lists=lists)
            sources = {
                name: Tensor(read_back(given[name], formats[name]), self._label(source, formats[name]))
                if name in given
                else Tensor(np.zeros(source.shape.elements, np.uint32), source.df if isinstance(source, Queue) else source.out_df)
                for name, source in segment.sources.items()
            }
            made = compute(segment, sources, sums, rules, scope)
            queues = {queue.name: queue for queues in segment.feeds.values() for queue in queues}
            pushed = {name: at_rest(tensor.data, queues[name].df) for name, tensor in made.pushed.items()}
            left = {op.name: at_rest(made.left[op.name].data, op.out_df) for op in segment.ops if op.name in made.left}
            return left, {name: data.astype(np.float32) for name, data in made.sums.items()}, pushed

        graph.__name__ = segment.name
        return graph

    def _label(self, source: Queue | Op, format: Format) -> Format:
        """What the reference model would call what an op made of Float32."""
        is_made = isinstance(source, Op) or not source.is_fed_by_host
        return FORMATS["Tf32"] if is_made and format.name == "Float32" and self.rules.arch in TF32_ARCHES else format


@dataclass(frozen=True)
class Rehearsal:
    """A backend that compiles what the chip would run, and computes with numpy."""

    chip: Tx8

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        """One input of a segment; see `compute`."""
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


def _given(segment: Segment) -> dict[str, Format]:
    """The formats of what a segment reads, but for encodings."""
    encodings = {op.inputs[2] for op in segment.ops if is_sparse(op)}
    sources = segment.sources.items()
    return {name: s.df if isinstance(s, Queue) else s.out_df for name, s in sources if name not in encodings}


def _sums(segment: Segment) -> dict[str, tuple[int, ...]]:
    return {op.name: op.shape.elements for op in segment.ops if op.gradient_op}
