"""Ops of a netlist while it is made of HLO: what an op reads, and in which layout lies what it makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hlo2tx8.errors import UnsupportedError, UnsupportedOp
from hlo2tx8.netlist.elementwise import BINARY, UNARY, relu
from hlo2tx8.netlist.emit.layout import ONE, TILED, Axis, AxisName, Key, Layout
from hlo2tx8.netlist.emit.sparse import LARGE_TILES, LEAST_TILES, Listing, listing_of
from hlo2tx8.netlist.evaluate import TF32_ARCHES
from hlo2tx8.netlist.formats import FORMATS, Array
from hlo2tx8.netlist.ops import KINDS
from hlo2tx8.netlist.shapes import TILE, Shape
from hlo2tx8.netlist.tms import Tm, shape_after

TRANSPOSE = Tm("transpose")
MOST_MOVED = 1 << 27
RAW = "RawUInt32"
WHOLE_BITS: Mapping[str, int] = {"Float32": 24, "Float16_b": 8, "Float16": 11}
"""All whole numbers of so many bits are exact."""


@dataclass(frozen=True)
class Value:
    """An array: what is read, the manipulations on the way, the layout after them, what all positions without an element hold
    (None if that is not known), and the data format. If it `is_uniform`, all others hold that, too. If it `is_flag`, it is 0 and 1.
    """

    source: str
    layout: Layout
    df: str
    pad: float | None = None
    tms: tuple[Tm, ...] = ()
    is_uniform: bool = False
    is_flag: bool = False

    @property
    def has_holes(self) -> bool:
        return any(map(self.layout.has_holes, TILED))


@dataclass(frozen=True)
class Step:
    """An op that has no place yet; `inputs` are sources with their manipulations."""

    name: str
    type: str
    inputs: tuple[tuple[str, tuple[Tm, ...]], ...]
    attributes: Mapping[str, Any]
    shape: Shape
    df: str


@dataclass
class Builder:
    """Ops in an order in which each is made of earlier ones, constants, and the shapes and formats of all that ops read.

    `origin` is where the instruction stands that is emitted. With `sparse` small matrices of zeros are listed, too.
    """

    arch: str = "blackhole"
    sparse: bool = False

    steps: dict[str, Step] = field(default_factory=dict[str, Step])
    rams: dict[str, Array] = field(default_factory=dict[str, Array])
    known: dict[str, tuple[Shape, str]] = field(default_factory=dict[str, tuple[Shape, str]])
    made: dict[Any, str] = field(default_factory=dict[Any, str])
    listings: dict[str, Listing] = field(default_factory=dict[str, Listing])
    what: str = ""
    origin: str = ""

    def refuse(self, reason: str) -> UnsupportedError:
        """The error that says why the instruction at hand has no form in a netlist."""
        return UnsupportedError([UnsupportedOp(self.what, (self.origin,), reason)])

    def name(self, word: str) -> str:
        """A new name."""
        taken, number = {*self.steps, *self.known}, 0
        while f"{word}_{number}" in taken:
            number += 1
        return f"{word}_{number}"

    def op(self, kind: str, values: Sequence[Value], layout: Layout, pad: float | None, df: str = "", **attributes: Any) -> Value:
        """What a new op makes, or an equal one that there is; in the format of its first input unless `df` is another."""
        values = [value if _may_turn(kind, number) else self.straight(value) for number, value in enumerate(values)]
        values = [value if KINDS[kind].family == "matmul" else self.turnable(value) for value in values]
        inputs = tuple((value.source, value.tms) for value in values)
        df = df or values[0].df
        key = kind, inputs, df, str(attributes)
        if key not in self.made:
            step = Step(self.name(kind), kind, inputs, attributes, layout.tiles, df)
            self.steps[step.name] = step
            self.known[step.name] = (step.shape, df)
            self.made[key] = step.name
        return Value(self.made[key], layout, df, pad)

    def copied(self, value: Value) -> Value:
        """By an op of its own."""
        value = self.turnable(value)
        step = Step(self.name("nop"), "nop", ((value.source, value.tms),), {}, value.layout.tiles, value.df)
        self.steps[step.name] = step
        self.known[step.name] = (step.shape, step.df)
        return Value(step.name, value.layout, value.df, value.pad)

    def limit(self, df: str) -> int:
        """The whole numbers up to which a format of floats has all."""
        if df == "Float32" and self.arch == "grayskull":
            df = "Float16_b"  # what it sums up in
        return 1 << (11 if df == "Float32" and self.arch in TF32_ARCHES else WHOLE_BITS[df])

    def as_float(self, value: Value, df: str) -> Value:
        """Whole numbers or floats in a format of floats."""
        if value.df == df:
            return value
        if not FORMATS[value.df].is_integer:
            return self.elementwise("nop", [value], df)
        most = {"Int8": 1 << 7}.get(value.df, 1 << 24)
        if value.df not in ("Int8", "Int32") or not (value.is_flag or most <= self.limit(df)):
            raise self.refuse(f"{df} on {self.arch} has whole numbers up to {self.limit(df)} only, not all of {value.df}")
        shape = self.known[value.source][0]
        layout = Layout((), Axis(shape.z), Axis(shape.rt * TILE), Axis(shape.ct * TILE))
        ones = self.mask(Value(value.source, layout, "Float32"), (), 1, 1)
        made = self.op("dequantization", [Value(value.source, layout, value.df), ones], layout, None, "Float32")
        return self.as_float(replace(value, source=made.source, df="Float32"), df)

    def bounded(self, elements: int) -> None:
        """Refuse a matrix of more than these elements."""
        if elements > MOST_MOVED:
            raise self.refuse(f"its elements are moved by a matrix of {elements:,}, and not more than {MOST_MOVED:,} are written")

    def straight(self, value: Value) -> Value:
        """Without a transpose on the way to its reader."""
        if TRANSPOSE not in value.tms:
            return value
        value = self.turnable(value)
        return self.op("nop", [value], value.layout, value.pad)

    def turnable(self, value: Value) -> Value:
        """As floats if it is turned on the way, which integers are not."""
        is_turned = TRANSPOSE in value.tms and FORMATS[value.df].is_integer
        return self.as_float(value, "Float32") if is_turned else value

    def ram(self, data: Array, df: str) -> str:
        """A constant [z, rows, columns] by name; equal ones are there once."""
        key = data.tobytes(), data.shape, df
        if key not in self.made:
            self.made[key] = name = self.name("const")
            self.rams[name] = data
            self.known[name] = (Shape(data.shape[0], data.shape[1] // TILE, data.shape[2] // TILE), df)
        return self.made[key]

    def constant(self, array: Array, layout: Layout, df: str) -> Value:
        """An array in a layout, 0 elsewhere; dimensions whose stride is 0 are stored once where that is enough."""
        repeats = [dim for dim, stride in enumerate(array.strides) if not stride]
        kept: dict[AxisName, Axis] = {}
        for name in ("z", *TILED):
            outer, inner = layout.peeled(name)
            if all(key[0] in repeats for key in inner.strides) and name != "z":
                inner = ONE
            kept[name] = _around(layout, [key for key in outer if key[0] not in repeats], inner)
        own = layout.on(**kept)
        keys = own.placed
        index = tuple(slice(None) if any(key[0] == dim for key in keys) else slice(0, 1) for dim in range(array.ndim))
        parts = np.ascontiguousarray(array[index]).reshape([own.size(key) for key in keys])
        data = np.zeros((own.z.span, own.r.span, own.c.span), np.float32)
        at = [own.places(name, keys) for name in ("z", "r", "c")]
        for row in range(own.r.copies):
            for column in range(own.c.copies):
                data[at[0], at[1] + row, at[2] + column] = parts
        is_uniform = not own.placed
        return Value(self.ram(data, df), own, df, float(data[0, 0, 0]) if is_uniform else 0.0, is_uniform=is_uniform)

    def cleaned(self, value: Value) -> Value:
        """With 0 in all positions that hold no element."""
        if not value.has_holes or value.pad == 0:
            return value
        return self.op("multiply", [value, self.mask(value, TILED, 1, 0)], value.layout, 0.0)

    def lowered(self, value: Value, name: AxisName) -> Value:
        """With -inf in the positions of an axis that hold no element."""
        if not value.layout.has_holes(name):
            return value
        value = self.cleaned_of_unknown(value)
        return self.op("add", [value, self.mask(value, [name], 0, -np.inf)], value.layout, value.pad)

    def mask(self, value: Value, names: Sequence[AxisName], inside: float, outside: float) -> Value:
        """A number where there is an element along these axes, and another one elsewhere."""
        layout, z = value.layout, value.layout.z.span
        rows, columns = (
            layout.covered(name) if name in names and layout.has_holes(name) else np.ones(TILE, bool) for name in TILED
        )
        counts = (("r", layout.r.span // len(rows)), ("c", layout.c.span // len(columns)), ("z", z))
        data = np.where(np.outer(rows, columns), np.float32(inside), np.float32(outside))[None]
        tms = tuple(Tm("broadcast", pair) for pair in counts if pair[1] > 1)
        return Value(self.ram(data, value.df), layout, value.df, outside, tms)

    def cleaned_of_unknown(self, value: Value) -> Value:
        """With 0 in positions without an element, if they might be infinite or no numbers."""
        return value if value.pad is not None and np.isfinite(value.pad) else self.cleaned(value)

    def elementwise(self, type: str, values: Sequence[Value], df: str = "", **attributes: Any) -> Value:
        """Of values in one layout."""
        if FORMATS[df or values[0].df].is_integer and any(TRANSPOSE in value.tms for value in values):
            values, df = [self.as_float(value, "Float32") for value in values], "Float32"
        first = values[0].layout
        full = {name: replace(first.axis(name), full=all(v.layout.axis(name).full for v in values)) for name in TILED}
        layout = first.on(**full)
        # What covers more than the result has data where that has holes.
        alike = [v.is_uniform or all(v.layout.axis(name).full == layout.axis(name).full for name in TILED) for v in values]
        known = all(alike) and all(value.pad is not None or not value.has_holes for value in values)
        pads = [0.0 if not (v.has_holes or v.is_uniform) else np.nan if v.pad is None else v.pad for v in values]
        pad: float | None = None
        with np.errstate(all="ignore"):
            try:
                arrays = [np.full((1, 1, 1), one, np.float32) for one in pads]
                made = BINARY[type](arrays[0], arrays[1], 0.0) if type in BINARY else UNARY[type](arrays[0], attributes)
                made = relu(made, attributes)
                pad = float(made.reshape(-1)[0]) if known else None
            except ValueError:  # what would be a root of no number
                return self.elementwise(type, [self.cleaned(value) for value in values], df, **attributes)
        made = self.op(type, values, layout, None if pad is not None and np.isnan(pad) else pad, df, **attributes)
        return replace(made, is_uniform=all(value.is_uniform for value in values) and made.pad is not None)

    def product(self, x: Value, y: Value, layout: Layout, df: str = "", **attributes: Any) -> Value:
        """x @ y for every z; where one of them has no element, the other's holes do no harm."""
        inner = shape_after(y.tms, self.known[y.source][0]).rt
        if x.layout.c.full and (y.layout.r.full or y.pad != 0):  # what is there more than once is summed once
            x = self.cleaned(replace(x, layout=x.layout.on(c=replace(x.layout.c, full=False)), pad=None))
        if y.layout.r.full and x.pad != 0:
            y = replace(y, layout=y.layout.on(r=replace(y.layout.r, full=False)), pad=None)
        if x.layout.has_holes("c") or y.layout.has_holes("r"):
            x, y = self.cleaned_of_unknown(x), self.cleaned_of_unknown(y)
            if x.pad and y.pad:
                x = self.cleaned(x)
        else:
            x, y = (self.cleaned_of_unknown(v) if v.pad is None and v.has_holes else v for v in (x, y))
        is_clean = all(v.pad == 0 or not v.has_holes for v in (x, y))
        pad = 0.0 if is_clean else None
        return self.op("matmul", [x, y], layout, pad, df, m_k=inner, u_kt=1, **attributes)

    def biased(self, value: Value, bias: Value) -> Value:
        """A product with what is added to all of its rows, which the first row of the bias holds."""
        step, layout, bias = self.steps[value.source], value.layout, self.straight(bias)
        tms = [Tm("broadcast", (n, k)) for n, k in (("r", layout.tiles.rt), ("z", layout.z.span)) if k > 1]
        others = [Value(source, layout, self.known[source][1], None, tms) for source, tms in step.inputs]
        is_clean = not layout.c.full and (bias.pad == 0 or not bias.layout.has_holes("c"))
        pad = value.pad if is_clean and not layout.has_holes("r") else None
        full = {name: replace(layout.axis(name), full=False) for name in TILED}
        made = layout.on(**full) if layout.c.full else layout
        inputs = [*others, replace(bias, tms=(*bias.tms, *tms))]
        return self.op("matmul", inputs, made, pad, value.df, **step.attributes, bias=True)

    def multiplied(self, value: Value, name: AxisName, matrix: Array, layout: Layout) -> Value:
        """Along an axis by a matrix [positions before, positions after]."""
        if FORMATS[value.df].is_integer:
            value = self.as_float(value, "Float32")
        value = self.cleaned_of_unknown(value)
        ordered = np.ascontiguousarray(matrix if name == "c" else matrix.T, np.float32)[None]
        z = value.layout.z.span
        if name == "r" and (listing := listing_of(ordered[0], z, LEAST_TILES if self.sparse else LARGE_TILES)) is not None:
            return self._sparse(value, listing, layout)
        tms = (Tm("broadcast", ("z", z)),) if z > 1 else ()
        rows, columns = ordered.shape[1:]
        own = Layout(((rows,), (columns,)), Axis(z), Axis(rows, {(0, 0): 1}), Axis(columns, {(1, 0): 1}))
        factor = Value(self.ram(ordered, value.df), own, value.df, 0.0, tms)
        return self.product(*((value, factor) if name == "c" else (factor, value)), layout)

    def _sparse(self, value: Value, listing: Listing, layout: Layout) -> Value:
        """A listed product; its encoding is made when it has cores."""
        words = f"words_{len(self.listings)}"
        self.known[words] = Shape(1, 1, 1), RAW
        weights = listing.weights()
        shape = Layout((), Axis(1), Axis(TILE), Axis(weights.shape[2]))
        factor = Value(self.ram(weights, value.df), shape, value.df)
        pad = 0.0 if value.pad == 0 or not value.has_holes else None
        made = self.op(
            "matmul", [factor, value, Value(words, shape, RAW)], layout, pad, m_k=listing.shape[1], u_kt=1, identity=True
        )
        self.listings[made.source] = listing
        return made


def _around(layout: Layout, outer: Sequence[Key], inner: Axis) -> Axis:
    strides, span = dict(inner.strides), inner.span
    for key in reversed(outer):
        strides[key] = span
        span *= layout.size(key)
    return Axis(span, strides, inner.base, inner.full)


def _may_turn(type: str, number: int) -> bool:
    """May that input of the op type be transposed on the way, on any architecture?"""
    family = KINDS[type].family
    return number == 1 if family == "matmul" else number == 0 and family in ("copy", "sfpu")
