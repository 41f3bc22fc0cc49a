"""Small modules of one HLO operation each, and of some that often stand together: from an OpSpec's samples, or `op_probes.mlir`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import cast

from hlo2tx8.errors import InputError
from hlo2tx8.hlo import Kind, OpSpec, Sample, TensorLike, has_spec, spec_of
from hlo2tx8.hlo.types import dtype, is_complex, is_float, is_pred, mlir_name

ENUMS = {"comparison_direction": "comparison_direction", "compare_type": "comparison_type"}
DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"),
    *("int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8", "int4", "uint4", "int2", "uint2"),
    *("bool", "complex64", "complex128"),
)
FLOATS = tuple(name for name in DTYPES if is_float(dtype(name)))
COMPLEX = tuple(name for name in DTYPES if is_complex(dtype(name)))
NUMBERS = tuple(name for name in DTYPES if not is_pred(dtype(name)))
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "all": DTYPES,
    "floats": FLOATS,
    "numbers": NUMBERS,
    "ordered": tuple(name for name in DTYPES if name not in COMPLEX),
    "real": tuple(name for name in NUMBERS if name not in COMPLEX),
    "solved": (*FLOATS, *COMPLEX),
    "complex": COMPLEX,
    "drawn": tuple(name for name in NUMBERS if name[-2:] in ("64", "32", "16") or name in ("int8", "uint8") if name not in COMPLEX),
}
"""Words for dtypes in the headings of `op_probes.mlir`."""
SHAPE = (5, 33)
UNUSUAL = tuple(name for name in DTYPES if "float8" in name or name.endswith(("int4", "int2")))
_HEADING = re.compile(r"^// ----- (\S+): (\w+):? ?(.*)\n", re.MULTILINE)
_SIZE = re.compile(r"(\w+)=(?:(\d+):(\d+)\.\.(\d+)|(\S+))")
_HOLE = re.compile(r"\$\{([^}]*)\}")
_TERM = re.compile(r"([+-]?)([^+-]+)")


@dataclass(frozen=True)
class Size:
    """What a template leaves open: a number, its default and its bounds, or one of some words, the first of them by default."""

    name: str
    default: int = 0
    least: int = 0
    most: int = 0
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Template:
    """A module of one element type with sizes left open."""

    dtypes: tuple[str, ...]
    sizes: tuple[Size, ...]
    text: str

    @property
    def defaults(self) -> dict[str, int | str]:
        """The sizes of a probe."""
        return {size.name: size.words[0] if size.words else size.default for size in self.sizes}

    def filled(self, dtype_name: str, sizes: Mapping[str, int | str]) -> str:
        """The module of that dtype and those sizes, by name."""
        text = _HOLE.sub(lambda hole: _value(hole[1], sizes), self.text)
        one = "true" if dtype_name == "bool" else "(1.0, 0.0)" if dtype_name in COMPLEX else "1.0" if dtype_name in FLOATS else "1"
        word = mlir_name(dtype(dtype_name))
        return re.sub(r"(?<=[<x])T(?=>)|(?<=: )T(?=\})", word, text).replace("ONE", one)


@dataclass(frozen=True)
class OpProbe:
    """A module of one op, and the dtype it stands for."""

    op: str
    dtype: str
    text: str


def probes(spec: OpSpec) -> Iterator[OpProbe]:
    """One module per dtype that the op is defined on; none of an op that passes make or that only holds a module together."""
    if spec.name in templates():
        first = templates()[spec.name][0]
        yield from (OpProbe(spec.name, name, first.filled(name, first.defaults)) for name in first.dtypes)
    elif spec.kind in (Kind.ELEMENTWISE, Kind.SHAPING) and not spec.name.startswith("hlo."):
        largest: dict[str, Sample] = {}
        for sample in spec.samples():
            key = key_of(sample)
            sample = _shaped(sample) if spec.kind is Kind.ELEMENTWISE else sample
            if key not in largest or _rank(sample) > _rank(largest[key]):
                largest[key] = sample
        yield from (OpProbe(spec.name, key, sample_text(spec, sample)) for key, sample in largest.items())


def has_probes(spec: OpSpec) -> bool:
    """Is there any?"""
    return next(probes(spec), None) is not None


def probe_of(op: str, dtype_name: str = "") -> str:
    """The module of an op, or of what often stands together, at its default sizes; InputError if it has none of that dtype."""
    if has_spec(op):
        found = {probe.dtype: probe.text for probe in probes(spec_of(op))}
    else:
        first = templates()[op][0]
        found = {name: first.filled(name, first.defaults) for name in first.dtypes}
    usual = next((name for name in ("bfloat16", "float32", "int32") if name in found), next(iter(found)))
    if (dtype_name or usual) not in found:
        raise InputError("E1004", f"{op} takes no {dtype_name}", hint=f"it takes {', '.join(found)}")
    return found[dtype_name or usual]


def key_of(sample: Sample) -> str:
    """The dtype that a sample is of: of its operands if they have one, and not that of a condition."""
    names = [like.dtype.name for like in (*sample.operands, *sample.results)]
    return next((name for name in names[: len(sample.operands)] if name != "bool"), names[0])


def sample_text(spec: OpSpec, sample: Sample) -> str:
    """A sample with one result as a StableHLO module."""
    names = [f"%a{i}" for i in range(len(sample.operands))]
    arguments = ", ".join(f"{n}: {o}" for n, o in zip(names, sample.operands, strict=True))
    attributes = ", ".join(_attribute(k, v, spec.name) for k, v in sample.attributes.items())
    operands = ", ".join(map(str, sample.operands))
    (result,) = sample.results
    body = f'%r = "{spec.name}"({", ".join(names)}) {{{attributes}}} : ({operands}) -> {result}'
    return f"module @m {{\nfunc.func public @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}\n}}\n"


def _shaped(sample: Sample) -> Sample:
    """An elementwise sample with SHAPE for the shape of its results: theirs may be empty."""
    old = sample.results[0].shape
    if not all(o.shape in (old, ()) for o in sample.operands):
        return sample
    operands, results = (
        tuple(TensorLike(SHAPE, x.dtype) if x.shape == old else x for x in tensors) for tensors in (sample.operands, sample.results)
    )
    return replace(sample, operands=operands, results=results)


def _rank(sample: Sample) -> tuple[bool, bool, int]:
    """Samples that are not empty, and give elements of a byte that are no f8, say most about their operands' dtype."""
    (result, *_), first = sample.results, sample.operands[:1]
    is_usual = result.dtype.name not in UNUSUAL or any(o.dtype == result.dtype for o in first)
    return (prod(result.shape) > 0, is_usual, prod(result.shape))


def _attribute(name: str, value: object, op: str) -> str:
    if name in ENUMS:
        return f"{name} = #{op.split('.', maxsplit=1)[0]}<{ENUMS[name]} {value}>"
    if isinstance(value, tuple):
        numbers = cast(tuple[int, ...], value)
        return f"{name} = array<i64{':' if numbers else ''} {', '.join(map(str, numbers))}>"
    return f"{name} = {value} : i{32 if name.endswith('_bits') else 64}"


@cache
def templates() -> Mapping[str, tuple[Template, ...]]:
    """By op, and by the name of what often stands together."""
    parts = _HEADING.split(Path(__file__).with_suffix(".mlir").read_text())[1:]
    found: dict[str, tuple[Template, ...]] = {}
    for op, family, sizes, text in zip(*(parts[k::4] for k in range(4)), strict=True):
        open_ = tuple(_size(word) for word in sizes.split())
        found[op] = (*found.get(op, ()), Template(FAMILIES[family], open_, text))
    return found


def _size(word: str) -> Size:
    found = _SIZE.fullmatch(word)
    assert found is not None, word
    name, default, least, most, words = found.groups()
    return Size(name, words=tuple(words.split("|"))) if words else Size(name, int(default), int(least), int(most))


def _value(text: str, sizes: Mapping[str, int | str]) -> str:
    """A word, or a sum of products."""
    if isinstance(word := sizes.get(text), str):
        return word
    terms = ((sign, [int(sizes.get(factor, factor)) for factor in product.split("*")]) for sign, product in _TERM.findall(text))
    return str(sum(prod(factors) * (-1 if sign == "-" else 1) for sign, factors in terms))
