"""`draw_case`: a random use of one op, or of ops that often stand together, as a module whose arrays have format codes.

Element types, ranks, shapes, attributes and forms are drawn within what an op takes: from its OpSpec's samples and the moves of
`hlo.draw_moves`, or from the templates of `op_probes.mlir`.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np

from hlo2tx8.dialects.tx8be_rows import ROWS
from hlo2tx8.errors import InputError
from hlo2tx8.frontend.chip_folder import FORMATS
from hlo2tx8.hlo import Kind, OpSpec, Sample, TensorLike, all_specs
from hlo2tx8.hlo.draw_moves import MOVES, SIZES, MoveDrawer
from hlo2tx8.hlo.types import dtype, is_float
from hlo2tx8.vendor.op_probes import DTYPES, has_probes, key_of, sample_text, templates
from hlo2tx8.vendor.real_ports import with_real_ports

USUAL = 0.85
"""How often the element type is one with a format code, where the op takes one."""
BROADCASTING = "chlo.broadcast_"
SHAPE = "shape"


@dataclass(frozen=True)
class OpCase:
    """A use of an op: `sizes` are those that its template leaves open, or the shape of its first operand as `shape`."""

    op: str
    dtype: str
    seed: int
    number: int
    sizes: Mapping[str, int | str]
    text: str

    @property
    def name(self) -> str:
        """A file name that no other case has."""
        return f"{self.op}_{self.seed}_{self.number}"


@cache
def case_names() -> tuple[str, ...]:
    """Every op of which a case can be drawn, then what often stands together. What rng gives is up to each implementation."""
    ops = sorted(spec.name for spec in all_specs() if has_probes(spec) and not _is_unknown(spec))
    specs = {spec.name for spec in all_specs()}
    return (*ops, *(name for name in templates() if name not in specs))


def _is_unknown(spec: OpSpec) -> bool:
    return spec.kind is Kind.HERO and spec.reference is None and spec.body_reference is None


def find_op(name: str) -> str:
    """The op of that name: StableHLO's or chlo's, without the dialect too, or that of tx8be; InputError with the nearest names."""
    word = re.sub(r"^(tx8be\.|op_)", "", name)
    by_row = next((row.hlo for key, row in ROWS.items() if key.lower() == word.lower()), "")
    for found in (name, f"stablehlo.{name}", f"chlo.{name}", by_row):
        if found in case_names():
            return found
    every = [
        *case_names(),
        *(n.partition(".")[2] for n in case_names()),
        *(key for key, row in ROWS.items() if row.hlo in case_names()),
    ]
    near = difflib.get_close_matches(name, every, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "opcase --list names all"
    raise InputError("E1004", f"there is no op {name!r}", hint=hint)


def dtypes_of(op: str) -> tuple[str, ...]:
    """The element types of which cases of an op can be drawn."""
    if op in templates():
        return tuple(dict.fromkeys(name for template in templates()[op] for name in template.dtypes))
    return tuple(_samples_of(next(spec for spec in all_specs() if spec.name == op)))


def open_sizes(op: str) -> str:
    """What `fixed` may name of an op: sizes of its templates, form by form, or its shape."""
    if op not in templates():
        return SHAPE
    return " or ".join(" ".join(size.name for size in template.sizes) for template in templates()[op])


def draw_case(op: str, seed: int, number: int, dtype_name: str = "", fixed: Mapping[str, int | str] | None = None) -> OpCase:
    """The case of that number; of the element type if one is named, with the sizes in `fixed`. InputError if it takes none such."""
    rng = np.random.default_rng([seed, number, crc32(op.encode())])
    drawer = _Drawer(rng, dict(fixed or {}), dtype_name)
    if op in templates():
        found, sizes, text = drawer.of_template(op)
    else:
        found, sizes, text = drawer.of_spec(next(spec for spec in all_specs() if spec.name == op))
    return OpCase(op, found, seed, number, sizes, with_real_ports(text))


Drawn = tuple[str, Mapping[str, int | str], str]
"""Dtype, sizes, module."""


@dataclass
class _Drawer(MoveDrawer):
    fixed: Mapping[str, int | str]
    wanted: str
    operands: list[TensorLike] = field(default_factory=list[TensorLike])
    sample: Sample | None = None

    def of(self, tensor: TensorLike) -> int:
        self.operands.append(tensor)
        return len(self.operands) - 1

    def append(self, name: str, result: TensorLike, operands: tuple[int, ...], **attributes: Any) -> int:
        self.sample = Sample(tuple(self.operands[o] for o in operands), (result,), attributes)
        return len(self.operands)

    def dtype_of(self, op: str, names: tuple[str, ...]) -> str:
        """One that the op takes: mostly one with a format code, floats twice as often as others."""
        if self.wanted:
            if self.wanted not in names:
                raise InputError("E1004", f"{op} takes no {self.wanted}", hint=f"it takes {', '.join(names)}")
            return self.wanted
        usual = [name for name in names if name in FORMATS.values()]
        usual += [name for name in usual if is_float(dtype(name))]
        return self.pick(usual if usual and self.rng.random() < USUAL else names)

    def of_template(self, op: str) -> Drawn:
        fits = [t for t in templates()[op] if self.fixed.keys() <= {size.name for size in t.sizes}]
        if not fits:
            raise InputError("E1004", f"{op} has no sizes {', '.join(self.fixed)}", hint=f"it has {open_sizes(op)}")
        template = self.pick([t for t in fits if self.wanted in ("", *t.dtypes)] or fits)
        name = self.dtype_of(op, template.dtypes)
        sizes: dict[str, int | str] = {}
        for size in template.sizes:
            choices: Any = size.words or [n for n in (*SIZES, size.least, size.most) if size.least <= n <= size.most]
            some = choices if size.words or self.rng.random() < 0.5 else choices[: len(choices) // 2 + 1]
            sizes[size.name] = self.pick(some)
            if size.name in self.fixed:
                sizes[size.name] = value = self.fixed[size.name]
                is_fit = value in size.words if size.words else type(value) is int and value >= size.least
                if not is_fit:
                    takes = ", ".join(size.words) or f"{size.least} and more"
                    raise InputError("E1004", f"{size.name} of {op} is {value}", hint=f"it takes {takes}")
        return name, sizes, template.filled(name, sizes)

    def of_spec(self, spec: OpSpec) -> Drawn:
        by_dtype = _samples_of(spec)
        if unknown := [name for name in self.fixed if name != SHAPE]:
            raise InputError("E1004", f"{spec.name} has no size {', '.join(unknown)}", hint="it has shape, as shape=2x3x4")
        name = self.dtype_of(spec.name, tuple(by_dtype))
        given = _shape_in(self.fixed[SHAPE]) if SHAPE in self.fixed else None
        sample = None
        while sample is None:  # a scalar has nothing to put side by side
            shape = self.shape() if given is None else given
            if spec.kind is Kind.ELEMENTWISE:
                sample = self.reshaped(self.pick(by_dtype[name]), shape, spec.name.startswith(BROADCASTING))
            else:
                sample = self.moved(spec.name, TensorLike(shape, dtype(name)))
            if sample is None and given is not None and not given:
                raise InputError("E1004", f"{spec.name} takes no scalar")
        first = (*sample.operands, *sample.results)[0]
        return name, {SHAPE: "x".join(map(str, first.shape))}, sample_text(spec, sample)

    def moved(self, op: str, own: TensorLike) -> Sample | None:
        """A move of that tensor; None where there is none."""
        self.operands, self.sample = [own], None
        MOVES[op](self, 0, own)
        return self.sample

    def reshaped(self, sample: Sample, shape: tuple[int, ...], is_spread: bool) -> Sample:
        """The sample with that shape for its own: scalars beside it stay, and what a bitcast adds."""
        (result,) = sample.results
        if is_spread:
            sample = replace(sample, operands=tuple(replace(o, shape=result.shape) for o in sample.operands))
        own = min((result.shape, *(o.shape for o in sample.operands if o.shape or not result.shape)), key=len)
        tensors = [
            replace(t, shape=(*shape, *t.shape[len(own) :]) if t.shape[: len(own)] == own else t.shape)
            for t in (*sample.operands, *sample.results)
        ]
        if is_spread and len(tensors) > 2:
            thin = self.below(0, len(tensors) - 1)
            first = self.below(0, len(shape) + 1)
            ones = tuple(1 if self.rng.random() < 0.3 else n for n in shape[first:])
            tensors[thin] = replace(tensors[thin], shape=ones)
        return replace(sample, operands=tuple(tensors[:-1]), results=(tensors[-1],))


def _samples_of(spec: OpSpec) -> Mapping[str, list[Sample]]:
    """An op's samples by the element type that they are about."""
    found: dict[str, list[Sample]] = {}
    for sample in spec.samples():
        if all(t.dtype.name in DTYPES for t in (*sample.operands, *sample.results)):
            found.setdefault(key_of(sample), []).append(sample)
    return found


def _shape_in(text: int | str) -> tuple[int, ...]:
    if not re.fullmatch(r"(\d{1,6}(x\d{1,6}){0,7})?", str(text)):
        raise InputError("E1004", f"{text!r} is no shape", hint="shape=2x3x4")
    return tuple(int(word) for word in str(text).split("x") if word)
