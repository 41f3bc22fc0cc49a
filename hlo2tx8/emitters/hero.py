"""Hero analysis of a fusion: which of its instructions may decide how the whole fusion is emitted.

    a fusion with ...                            asks for the emitter
    a batch norm                                 batchnorm
    a sort of words                              sort
    a scan                                       scan
    updates of lines                             join
    an update at run-time places                 update
    a dot or a convolution                       gemm
    a reduce                                     row, else reduction
    a concatenation of a few operands            concatenate
    an instruction that orders dimensions anew   transpose
    anything                                     loop

The heroes are in the order in which emitters are asked: one that declines leaves the fusion to the next hero's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Operation

from hlo2tx8.dialects.hlo_lines import JoinAtOp, ScanOp, SortWordsOp
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo import Kind, has_spec
from hlo2tx8.partitioner.instruction import kind_of, tensor_type
from hlo2tx8.schedule.concatenate_parts import MAX_CONCATENATE_OPERANDS

HeroKind = Literal[
    "batchnorm",
    "sort",
    "scan",
    "join",
    "update",
    "gemm",
    "row",
    "reduction",
    "concatenate",
    "transpose",
    "loop",
]


@dataclass(frozen=True)
class Hero:
    """An instruction (None: no single one), the kind of emitter that it asks for, and why."""

    op: Operation | None
    kind: HeroKind
    reason: str


def heroes(fusion: Operation) -> tuple[Hero, ...]:
    """The heroes of an `hlo.fusion`, the most special first; the last one is of kind loop."""
    ops = [op for op in fusion.regions[0].block.ops if has_spec(op.name) and op.results]
    found: list[Hero] = []
    for kind, is_hero in _RULES:
        op = next((op for op in reversed(ops) if is_hero(op)), None)  # the one nearest to the roots
        if op is not None:
            found.append(Hero(op, kind, f"the hero is {op.name}"))
    return (*found, Hero(None, "loop", "every instruction is elemental"))


def is_batch_norm(op: Operation) -> bool:
    """Is it a batch norm with given mean and variance, which is one op up to here?"""
    return has_spec(op.name) and kind_of(op) is Kind.PER_CHANNEL


def _is_sort(op: Operation) -> bool:
    return isinstance(op, SortWordsOp)


def _is_scan(op: Operation) -> bool:
    return isinstance(op, ScanOp)


def _is_join(op: Operation) -> bool:
    return isinstance(op, JoinAtOp)


def _is_update(op: Operation) -> bool:
    return op.name == "hlo.write_at"


def _is_contraction(op: Operation) -> bool:
    return kind_of(op) is Kind.DOT


def _is_reduce(op: Operation) -> bool:
    return kind_of(op) is Kind.REDUCE


def _orders_dimensions(op: Operation) -> bool:
    """May it read its operands in another order than its result is written in?"""
    is_move = kind_of(op) in (Kind.SHAPING, Kind.INDEXED)
    return is_move or not all(is_row_major(tensor_type(value)) for value in (*op.operands, *op.results))


def _is_concatenation(op: Operation) -> bool:
    return op.name == "stablehlo.concatenate" and 1 < len(op.operands) <= MAX_CONCATENATE_OPERANDS


_RULES: tuple[tuple[HeroKind, Callable[[Operation], bool]], ...] = (
    ("batchnorm", is_batch_norm),
    ("sort", _is_sort),
    ("scan", _is_scan),
    ("join", _is_join),
    ("update", _is_update),
    ("gemm", _is_contraction),
    ("row", _is_reduce),
    ("reduction", _is_reduce),
    ("concatenate", _is_concatenation),
    ("transpose", _orders_dimensions),
)
"""What makes an instruction a hero, in the order in which emitters are asked: each part of a concatenation may be a transpose."""
