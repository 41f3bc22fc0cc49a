"""docs/indexing.md: the indexing maps of every HLO operation that has some, worked out from its OpSpec on a small example."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import fill

from hlo2tx8.hlo import Kind, OpSpec, Sample, all_specs

LINE = 130
"""Characters in a line of the page."""
LEAD = """An indexing map says which elements of an operand one element of the result needs. It is written as XLA writes it:

    (d0, d1)[s0]{rt0} -> (d0 + rt0, s0), domain: d0 in [0, 4], d1 in [0, 6], s0 in [0, 31], rt0 in [0, 3], d0 mod 2 in [0, 0]

| part | meaning |
|---|---|
| `(d0, d1)` | dimensions: the index of the result element |
| `[s0]` | range variables: every value in the range is needed, as in a reduction |
| `{rt0}` | runtime variables: known only when the program runs, as the start of a dynamic slice |
| `-> (...)` | the index into the operand; `floordiv` and `mod` round towards minus infinity |
| `domain: x in [lo, hi]` | bounds, both included; an expression with bounds is a constraint. Outside, the operand is not read |

Fusion composes maps: the map from a fusion's root to one of its parameters is the composition of the maps on the way, and it is
simplified by the bounds. Emitters read and write through such maps, and a work split is one too: (tile, step)[lane] to the elements
of the result. `hlo2tx8/indexing/` holds the mathematics, `hlo2tx8/hlo/ops/` an `indexing` function per operation.

The examples below are made from each operation's own sample. Operations with equal types and maps share an entry."""

HEADINGS = {
    Kind.ELEMENTWISE: "Elementwise: one element of each operand, at the same index",
    Kind.SHAPING: "Shaping: one element of one operand, or none",
    Kind.INDEXED: "Indexed: one element, at an index that other operands move",
    Kind.PER_CHANNEL: "Per channel: one element, and one of each other operand at its channel",
    Kind.REDUCE: "Reductions: all elements along the reduced dimensions",
    Kind.DOT: "Dots: a row and a column",
    Kind.HERO: "Other operations with maps",
}
WITHOUT = """Some operations have no map of their own. Passes rewrite them into operations that do (windows, convolutions, batch
norm training, fft, linear algebra, random numbers, sorts), an emitter of their own writes them (scatter), or they only hold a
module together and have no elements (control flow):"""


@dataclass(frozen=True)
class Example:
    """An operation on small tensors: the types of operands and result, and per operand the maps as text."""

    name: str
    kind: Kind
    types: str
    maps: tuple[tuple[str, ...], ...]


def example(spec: OpSpec) -> Example | None:
    """The operation's maps on one of its samples or on its probe; None if it has neither, or no operands with maps."""
    if spec.indexing is None:
        return None
    found = _of_sample(spec) or _of_probe(spec)
    return found if found and found.maps else None


def _of_sample(spec: OpSpec) -> Example | None:
    """On the sample that shows most: with elements, of rank 3 at most, in f32 if there is one, else of the highest rank."""
    samples = [sample for sample in spec.samples() if len(sample.results) == 1 and sample.operands]
    if not samples or spec.indexing is None:
        return None
    sample = max(samples, key=_shows)
    maps = spec.indexing(sample.attributes, sample.results[0], sample.operands)
    types = f"({', '.join(map(str, sample.operands))}) -> {sample.results[0]}"
    return Example(spec.name, spec.kind, types, tuple(tuple(map(str, group)) for group in maps))


def _shows(sample: Sample) -> tuple[bool, bool, bool, int]:
    tensors = (*sample.operands, *sample.results)
    ranks = [len(like.shape) for like in tensors]
    is_small = max(ranks) <= 3
    has_elements = all(0 not in like.shape for like in tensors)
    return has_elements, is_small, sample.results[0].dtype.name == "float32", sum(ranks) if is_small else -sum(ranks)


def _of_probe(spec: OpSpec) -> Example | None:
    """On the module that docs/ops.md tries it with."""
    from hlo2tx8.frontend import load
    from hlo2tx8.hlo.lookup import operand_indexing
    from hlo2tx8.vendor.op_probes import probes

    probe = next(probes(spec), None)
    ops = [op for op in load(probe.text).walk() if op.name == spec.name] if probe else []
    if not ops:
        return None
    types = f"({', '.join(str(value.type) for value in ops[0].operands)}) -> {ops[0].results[0].type}"
    return Example(spec.name, spec.kind, types, tuple(tuple(map(str, group)) for group in operand_indexing(ops[0])))


def indexing_page(note: str) -> str:
    """The page; `note` is the line that says it is generated."""
    found = {spec.name: example(spec) for spec in sorted(all_specs(), key=lambda spec: spec.name)}
    sections = "\n\n".join(_section(kind, [e for e in found.values() if e and e.kind is kind]) for kind in HEADINGS)
    without = _wrapped(f"`{name}`" for name, of in found.items() if of is None)
    return f"{note}\n# Indexing maps\n\n{LEAD}\n\n{sections}\n\n## Without maps\n\n{WITHOUT}\n\n{without}.\n"


def _wrapped(names: Iterable[str]) -> str:
    return fill(", ".join(names), LINE, break_long_words=False, break_on_hyphens=False)


def _section(kind: Kind, examples: list[Example]) -> str:
    equal: dict[tuple[str, tuple[tuple[str, ...], ...]], list[str]] = {}
    for e in examples:
        equal.setdefault((e.types, e.maps), []).append(f"`{e.name}`")
    entries = [f"{_wrapped(names)}\n\n" + "\n".join(_lines(types, maps)) for (types, maps), names in equal.items()]
    return f"## {HEADINGS[kind]}\n\n" + ("\n\n".join(entries) or "None has a sample of its own.")


def _lines(types: str, maps: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    yield f"    {types}"
    for number, group in enumerate(maps):
        for text in group:
            yield f"    operand {number}: {text}"
