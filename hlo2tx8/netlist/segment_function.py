"""A segment as a function that jax traces: op by op, each where it is placed.

The function of an op on tiles of its own is called with them as its frontend attribute, so that it stays one.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from hlo2tx8.frontend.shim import function_on_tiles
from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.netlist.epochs import Segment, compute
from hlo2tx8.netlist.evaluate import TF32_ARCHES, Rules
from hlo2tx8.netlist.formats import FORMATS, Array, Format
from hlo2tx8.netlist.model import Op, Queue
from hlo2tx8.netlist.storage import Lying, at_rest, element_of, read_back, stored
from hlo2tx8.netlist.tensors import Tensor


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


def function_of(
    segment: Segment, formats: Mapping[str, Format], rules: Rules, tiles: Mapping[str, Rectangle]
) -> Callable[..., Any]:
    """A segment as a function of what lies in queues for each of some inputs, of sums and lists; it gives for each what it leaves,
    sums, and what is pushed.

    `formats` are those of what it reads but for encodings, `tiles` those of ops that have some of their own.
    """
    traced = _Ops(segment, formats, rules)
    calls = {op.name: traced.call(op, tiles.get(op.name)) for op in segment.ops}

    def of_input(given: Mapping[str, Lying], sums: Mapping[str, Array], lists: Mapping[str, Sequence[Array]]) -> Any:
        held: dict[str, Any] = {}
        found: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] = ({}, {}, {})
        for op in segment.ops:
            read = {name: held[name] if name in held else given[name] for name in op.inputs if name in held or name in given}
            own = {name: part[op.name] for name, part in (("sums", sums), ("lists", lists)) if op.name in part}
            held[op.name], *parts = calls[op.name](read, own)
            for all_ops, part in zip(found, parts, strict=True):
                all_ops.update(part)
        return found

    def graph(given: Sequence[Mapping[str, Lying]], sums: Mapping[str, Array], lists: Mapping[str, Sequence[Array]]) -> Any:
        return [of_input(own, sums, lists) for own in given]

    graph.__name__ = segment.name
    return graph


@dataclass(frozen=True)
class _Ops:
    """Functions of single ops. `made` are the formats of what they have made so far."""

    segment: Segment
    formats: Mapping[str, Format]
    rules: Rules
    made: dict[str, Format] = field(default_factory=dict[str, Format])

    def call(self, op: Op, tiles: Rectangle | None) -> Callable[..., Any]:
        """The function of an op: of what it reads and its sums and lists; it gives what it makes, and the op's part of what the
        segment leaves, sums and pushes."""
        if tiles is None:
            return partial(self.run, op)

        def run(read: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
            return self.run(op, read, own)

        run.__name__ = re.sub(r"\W", "_", op.name)
        placed = function_on_tiles(run, str(tiles))

        def call(read: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
            with jax.named_scope(op.name):
                return placed(read, own)

        return call

    def run(self, op: Op, read: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """What the op makes, leaves, sums up and pushes."""
        lists = {op.name: own["lists"]} if "lists" in own else {}
        rules = ChipRules(self.rules.arch, self.rules.fused, lists=lists)
        ops = {other.name: other for other in self.segment.ops}
        names = dict.fromkeys(op.inputs)
        sources = {name: self.segment.sources.get(name) or ops[name] for name in names}
        alone = Segment(op.name, (op,), sources, (op.name,), {op.name: self.segment.feeds.get(op.name, ())})
        with self.scope(op.name):
            before = {op.name: own["sums"]} if "sums" in own else {}
            made = compute(alone, {name: self.tensor(name, read.get(name), sources[name]) for name in names}, before, rules)
            result = made.left[op.name]
            self.made[op.name] = result.format
            left = {op.name: at_rest(result.data, op.out_df)} if op.name in self.segment.leaves else {}
            sums = {name: data.astype(np.float32) for name, data in made.sums.items()}
            queues = {queue.name: queue for queue in alone.feeds[op.name]}
            return result.data, left, sums, {name: at_rest(t.data, queues[name].df) for name, t in made.pushed.items()}

    def tensor(self, name: str, data: Any, source: Queue | Op) -> Tensor:
        """What an op reads; zeros for an encoding, which the host has read."""
        if data is None:
            return Tensor(np.zeros(source.shape.elements, np.uint32), source.df if isinstance(source, Queue) else source.out_df)
        if name in self.made:
            return Tensor(data, self.made[name])
        return Tensor(read_back(data, self.formats[name]), self._label(source, self.formats[name]))

    def _label(self, source: Queue | Op, format: Format) -> Format:
        """What the reference model would call what an op made of Float32."""
        is_made = isinstance(source, Op) or not source.is_fed_by_host
        return FORMATS["Tf32"] if is_made and format.name == "Float32" and self.rules.arch in TF32_ARCHES else format

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """Without functions of their own, where instructions would lose the op's name."""
        precision = None if self.rules.arch in TF32_ARCHES else "highest"
        with jax.named_scope(name), jax.default_matmul_precision(precision), jax.disable_jit():
            yield
