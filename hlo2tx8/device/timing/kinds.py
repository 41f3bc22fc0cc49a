"""What first words of records mean to the timing model in C: `struct timed_kind` of timing.h, for a program or of all classes."""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, ClassVar, cast

from hlo2tx8.device.chip import Beats
from hlo2tx8.device.isa import INSTRUCTIONS
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.encoding import HEADER_WORDS, RECORD_WORDS, head_of
from hlo2tx8.device.isa.extents import Elements, Span
from hlo2tx8.device.isa.fields import Engine, Field, Role
from hlo2tx8.device.isa.forms import DmaForm, KcGatherForm, KcScalar, KcScatterForm
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcExit,
    KcFloorDiv,
    KcIf,
    KcLess,
    KcLoop,
    KcMax,
    KcMin,
    KcMod,
    KcMul,
    KcWait,
)
from hlo2tx8.device.isa.lsu import TdmaGatherScatter, TdmaMemset
from hlo2tx8.device.timing.costs import computes, least
from hlo2tx8.device.timing.needed import is_scalar
from hlo2tx8.device.timing.steps import FUNCTIONS, PLAIN, Op, shape_names

OPERAND_WORDS = RECORD_WORDS - HEADER_WORDS
MOST_RANGES = 8
UNKNOWN, AFFINE = 0, 1
FOLDS: tuple[type[KcScalar], ...] = (KcFloorDiv, KcMod, KcMin, KcMax, KcMul, KcLess)
"""Those of timing.h, from 2 on."""
OPS: Mapping[type[Instruction], Op] = {KcLoop: Op.LOOP, KcIf: Op.IF, KcExit: Op.EXIT, KcWait: Op.WAIT, **PLAIN}
BY_PYTHON, DMA, TDMA, CT, KC, KC_EACH, DTE = range(7)
ELEMENTS, SPAN = 1, 2
COUNTS, DECIDES, IS_SOURCE, IS_NUMBER, IS_PLACE = (1 << i for i in range(5))
PLACES = (Role.SLOT, Role.DDR_READ, Role.DDR_WRITE)


_INDEX, _NUMBER = ctypes.c_int32, ctypes.c_int64


class _Levels(ctypes.Structure):
    _fields_: ClassVar = [("run", _INDEX), ("scale", _INDEX), ("num", _INDEX), ("strides", _INDEX * 3), ("counts", _INDEX * 3)]


class _Extent(ctypes.Structure):
    _fields_: ClassVar = [(n, _INDEX) for n in ("field", "is_write", "extent", "num_factors")]
    _fields_ += [("factors", _INDEX * 4), ("scale", _INDEX), ("divisor", _INDEX), ("levels", _Levels)]


class TimedKind(ctypes.Structure):
    """`struct timed_kind` of timing.h: what a record's first word says about its cost, its operands and the bytes it moves."""

    _fields_: ClassVar = [("head", ctypes.c_uint64)]
    _fields_ += [(n, _INDEX) for n in ("op", "fold", "engine", "cost", "format_bytes", "computes", "work")]
    _fields_ += [(n, _INDEX) for n in ("num_fields", "num_extents", "num_sides", "other_tile", "other_tiles")]
    _fields_ += [("least", _NUMBER * OPERAND_WORDS), ("flags", ctypes.c_uint8 * (OPERAND_WORDS + 4))]
    _fields_ += [("extents", _Extent * MOST_RANGES), ("sides", _Levels * 2)]


@lru_cache(4096)
def kind_row(code: int, beats: Beats, is_ddr_at_peak: bool) -> bytes | None:
    """`struct timed_kind` of a head, with these cycles per beat; None if the core does not follow its kind.

    Where DDR is not at its peak rate Python is asked for the costs of transfers.
    """
    head = head_of(code)
    found = _kind(head.kind, head.fmt.bytes, head.fmt2.bytes, beats.of(head.kind.COST))
    if found is None:
        return None
    found.head = code
    if found.work == DMA and not is_ddr_at_peak:
        found.work = BY_PYTHON
    return bytes(found)


def kinds_text() -> str:
    """`timed_kinds.h`: a row of each class for any formats, by opcode.

    Where the size of an element is to be it has -1, of a source's -2; in place of cycles per beat it has the number of their entry
    in the chip description.
    """
    beats = [f.name for f in fields(Beats)]
    rows = {kind.OPCODE: _kind(kind, -1, -2, beats.index(kind.COST)) for kind in INSTRUCTIONS}
    return "\n".join(
        (
            "/* Generated from the instruction classes. Do not edit. */",
            "static const struct timed_kind STREAM_KINDS[NUM_OPCODES] = {",
            *(f"    [{opcode}] = {_c_text(row)}," for opcode, row in rows.items() if row is not None),
            "};",
            "",
        )
    )


def _c_text(value: Any) -> str:
    """A structure or number of C as an initialiser."""
    if isinstance(value, ctypes.Array):
        items: list[Any] = [*cast(Iterable[Any], value)]
        return f"{{{', '.join(map(_c_text, items))}}}"
    if isinstance(value, ctypes.Structure):
        return f"{{{', '.join(_c_text(getattr(value, str(row[0]))) for row in value._fields_)}}}"
    return str(int(value))


def _kind(kind: type[Instruction], size: int, source_size: int, beats: int) -> TimedKind | None:
    """`struct timed_kind` of a class, for elements of so many bytes; None if the core does not follow it."""
    names = tuple(f.name for f in kind.FIELDS)
    spm = [f for f in kind.FIELDS if f.role in (Role.SPM_READ, Role.SPM_WRITE) and f.num_bytes is not None]
    if len(spm) > MOST_RANGES or kind in FUNCTIONS:
        return None
    counts, decides = shape_names(kind)
    sides = _sides(kind, size, names)
    found = TimedKind(
        *(0, _op(kind), _fold(kind), kind.ENGINE, beats, size, computes(kind), _work(kind)),
        *(len(names), len(spm), len(sides)),
        *(names.index(name) if kind.ENGINE is Engine.DTE and name in names else -1 for name in ("tile", "tiles")),
    )
    for number, f in enumerate(kind.FIELDS):
        found.least[number] = least(f)
        found.flags[number] = (f.name in counts) * COUNTS | (f.name in decides) * DECIDES | (f.name != "rd") * IS_SOURCE
        found.flags[number] |= (f.role is Role.REGISTER) * IS_NUMBER | (f.role in PLACES) * IS_PLACE
    for number, f in enumerate(spm):
        found.extents[number] = _extent(f, size, source_size, names)
    for number, side in enumerate(sides):
        found.sides[number] = side
    return found


def _op(kind: type[Instruction]) -> Op:
    if kind in OPS:
        return OPS[kind]
    return Op.SCALAR if is_scalar(kind) else Op.WORK if kind.ENGINE is Engine.KC else Op.ISSUE


def _fold(kind: type[Instruction]) -> int:
    return AFFINE if kind is KcAffine else 2 + FOLDS.index(kind) if kind in FOLDS else UNKNOWN


def _work(kind: type[Instruction]) -> int:
    """The rule of timing.h that gives its cost."""
    if issubclass(kind, KcGatherForm | KcScatterForm):
        return KC_EACH
    if kind in (TdmaMemset, TdmaGatherScatter):
        return TDMA
    return {Engine.RDMA: DMA, Engine.WDMA: DMA, Engine.CT: CT, Engine.KC: KC, Engine.DTE: DTE}.get(kind.ENGINE, BY_PYTHON)


def _sides(kind: type[Instruction], size: int, names: Sequence[str]) -> list[_Levels]:
    """What a transfer moves, of both sides if they differ; what a kernel-core instruction goes over element by element."""
    three = [(f"s{i}", f"n{i}") for i in (1, 2, 3)]
    if issubclass(kind, DmaForm) and kind.ENGINE is not Engine.DTE:
        return [_levels("count", three, size, names)]
    if kind is TdmaMemset:
        return [_levels("n", three[:2], size, names)]
    if kind is TdmaGatherScatter:
        return [_levels("run_bytes", [(f"{side}{s}", f"{side}{n}") for s, n in three], 1, names) for side in "rw"]
    return [_levels("n", (), 1, names)] if issubclass(kind, KcGatherForm | KcScatterForm) else []


def _levels(run: str, levels: Sequence[tuple[str, str]], scale: int, names: Sequence[str]) -> _Levels:
    strides, counts = (tuple(names.index(level[side]) for level in levels) for side in (0, 1))
    return _Levels(names.index(run), scale, len(levels), strides, counts)


def _extent(f: Field, each: int, source_each: int, names: Sequence[str]) -> _Extent:
    head = (names.index(f.name), f.role is Role.SPM_WRITE)
    size: object = f.num_bytes
    if isinstance(size, Elements):
        factors = tuple(map(names.index, size.counts))
        return _Extent(*head, ELEMENTS, len(factors), factors, size.scale(each, source_each), size.divisor)
    if isinstance(size, Span):
        return _Extent(*head, SPAN, levels=_levels(size.run, size.levels, size.scale(each), names))
    return _Extent(*head, BY_PYTHON)
