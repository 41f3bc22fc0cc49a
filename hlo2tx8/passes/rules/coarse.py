"""Coarse ops in instructions, found by what they compute: an instruction that it needs says where to look, numbers decide.

    what it begins with     a row of                                  what a later value may be on that row
    reduce                  the dimensions that it reduces            softmax, log_softmax, layer_norm, rms_norm, l2_norm
    reduce of groups        a whole x: see coarse_groups              group_norm with weights
    tanh, erf, erfc,        points between -4 and 4                   gelu (tanh, erf), silu
    logistic
    a softmax found         -                                         sdpa: between the products in front of it and behind it

So constants, order, conversions and functions of a spelling do not matter. The largest region that is one is taken: a norm
with its weights, if they are there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.passes.rules.coarse_attention import RecognizedOp, attention_of, values_before
from hlo2tx8.passes.rules.coarse_groups import group_norm_of
from hlo2tx8.passes.rules.row_values import ELEMENTWISE, MOVES, SCALES, Row, RowValues, uses_of, weighted

LONGEST_ROW = 1 << 16
MOST_LOOKED_AT = 40
"""Values behind an instruction, in the order in which they are read."""
UNDER_A_SUM = ("stablehlo.convert", "stablehlo.multiply", "stablehlo.power", "stablehlo.exponential", "chlo.square")
"""Between x and what is reduced, squares mostly: not all, as a norm of a softmax is nearly one of what that divides."""
THROUGH = (*ELEMENTWISE, *MOVES, "stablehlo.compare", "stablehlo.reduce")


def coarse_ops(block: Block) -> list[RecognizedOp]:
    """All that are recognised in a block, in the order of their results; attention is there beside the softmax in it."""
    found: dict[SSAValue, RecognizedOp] = {}
    taken: set[SSAValue] = set()
    for op in block.ops:
        if op.name == "stablehlo.reduce" and len(op.results) == 1 and op.operands[0] not in taken:
            made = _of_rows(op)
        elif op.name in _POINTS:
            made = _of_points(op)
        else:
            continue
        if made is not None:
            found.setdefault(made.root, made)
            taken |= set(made.inputs[:1])
    whole = [made for each in found.values() if each.name == "softmax" and (made := attention_of(each)) is not None]
    place = {op: number for number, op in enumerate(block.ops)}
    return sorted((*found.values(), *whole), key=lambda each: _place(place, each.root))


# ------------------------------------------------------------------------------------------------------------- rows


def _softmax(x: Row, _: float) -> Row:
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def _log_softmax(x: Row, _: float) -> Row:
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def _layer_norm(x: Row, epsilon: float) -> Row:
    return (x - x.mean()) / np.sqrt(x.var() + epsilon)


def _rms_norm(x: Row, epsilon: float) -> Row:
    return x / np.sqrt((x * x).mean() + epsilon)


def _l2_norm(x: Row, epsilon: float) -> Row:
    return x / np.sqrt((x * x).sum() + epsilon)


_ROWS: tuple[tuple[str, Callable[[Row, float], Row]], ...] = (
    ("softmax", _softmax),
    ("log_softmax", _log_softmax),
    ("layer_norm", _layer_norm),
    ("rms_norm", _rms_norm),
    ("l2_norm", _l2_norm),
)
_NORMS = ("layer_norm", "rms_norm", "l2_norm")


def _of_rows(reduce: Operation) -> RecognizedOp | None:
    dims = tuple(sorted(int(dim) for dim in attributes_of(reduce)["dimensions"]))
    shape = shape_of(reduce.operands[0])
    size = prod(shape[dim] for dim in dims)
    before, later = values_before(reduce.operands[0], 3, UNDER_A_SUM), _later(reduce)
    roots = [v for v in later if shape_of(v) == shape]
    if roots and 1 < size <= LONGEST_ROW and (len(dims) == 1 or 0 not in dims):
        numbers = np.random.default_rng(0).standard_normal(size) + 0.25
        for x in reversed(before):
            values = [RowValues(x, dims, numbers * scale) for scale in SCALES]
            for root in reversed(roots):
                made = _named(values, root, dims)
                if made is not None:
                    return made
    return group_norm_of(reduce, before, later, lambda row, wanted, value: _is_near(row, wanted, _bound(value)))


def _named(values: Sequence[RowValues], root: SSAValue, dims: tuple[int, ...]) -> RecognizedOp | None:
    """What a value is of the rows, if it has a name."""
    given = [each.of(root) for each in values]
    weights = list(values[0].weights)
    if any(row is None or row.size != each.row.size for row, each in zip(given, values, strict=True)):
        return None
    if not values[0].depends.get(root, False):
        return None
    bound = _bound(root)
    axis = list(dims)
    for name, formula in _ROWS:
        is_norm = name in _NORMS
        for epsilon in _epsilons(values[0]) if is_norm else (0.0,):
            plain = [formula(each.row, epsilon) for each in values]
            for used in uses_of(weights) if is_norm else ((),):
                wanted = [weighted(row, [each.weights[w] for w in used]) for row, each in zip(plain, values, strict=True)]
                if all(row is not None and _is_near(row, want, bound) for row, want in zip(given, wanted, strict=True)):
                    said: dict[str, Any] = {"axis": axis, "epsilon": epsilon} if is_norm else {"axis": axis[-1]}
                    if not is_norm and len(axis) > 1:
                        return None
                    return RecognizedOp(_group(name, values[0].x, used), root, (values[0].x, *used), said)
    return None


def _group(name: str, x: SSAValue, weights: Sequence[SSAValue]) -> str:
    """The name of a norm: a layer's over parts of what was one dimension is a group's."""
    owner = x.owner
    if name != "layer_norm" or weights or not isinstance(owner, Operation) or owner.name != "stablehlo.reshape":
        return name
    return "group_norm" if shape_of(owner.operands[0])[-1:] != shape_of(x)[-1:] else name


def _epsilons(values: RowValues) -> list[float]:
    """Small constants that were met on the way, and none."""
    constants = [float(v[0]) for v in values.known.values() if v is not None and v.size == 1 and v.dtype.kind == "f"]
    return [*dict.fromkeys(float(f"{c:.7g}") for c in constants if 0 < c <= 1e-2), 0.0]


# ----------------------------------------------------------------------------------------------------------- points

_POINTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "chlo.erf": ("gelu", {"approximate": "erf"}),
    "chlo.erfc": ("gelu", {"approximate": "erf"}),
    "stablehlo.tanh": ("gelu", {"approximate": "tanh"}),
    "stablehlo.logistic": ("silu", {}),
    "stablehlo.exponential": ("silu", {}),
}
"""What an instruction may be in, by its name."""
RECOGNIZED = tuple(dict.fromkeys((*(name for name, _ in _ROWS), "group_norm", *(name for name, _ in _POINTS.values()), "sdpa")))
"""All names that what is recognised may have."""
_PLACES = np.linspace(-4, 4, 65)
_ERF = np.vectorize(math.erf)(_PLACES * math.sqrt(0.5))
_FORMULAS: Mapping[str, Row] = {
    "erf": _PLACES * 0.5 * (1 + _ERF),
    "tanh": _PLACES * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (_PLACES + 0.044715 * _PLACES**3))),
    "silu": _PLACES / (1 + np.exp(-_PLACES)),
}


def _of_points(op: Operation) -> RecognizedOp | None:
    name, attributes = _POINTS[op.name]
    wanted = _FORMULAS[attributes.get("approximate", name)]
    later = [v for v in _later(op, 12) if shape_of(v) == shape_of(op.results[0])]
    for x in reversed(values_before(op.operands[0], 8)):
        values = RowValues(x, (), _PLACES)
        for root in reversed(later):
            if _is_near(values.of(root), wanted, _bound(root)):
                return RecognizedOp(name, root, (x,), attributes)
    return None


# ---------------------------------------------------------------------------------------------------------- values


def _place(places: Mapping[Operation, int], value: SSAValue) -> int:
    return places.get(value.owner, 0) if isinstance(value.owner, Operation) else 0


def _later(op: Operation, most: int = MOST_LOOKED_AT) -> list[SSAValue]:
    """What is made of an instruction's result in the same block, in the order of reading."""
    found: dict[SSAValue, None] = {}
    waiting: list[SSAValue] = [op.results[0]]
    while waiting and len(found) < most:
        for use in waiting.pop(0).uses:
            reader = use.operation
            if (
                reader.name in THROUGH
                and len(reader.results) == 1
                and reader.results[0] not in found
                and reader.parent is op.parent
            ):
                found[reader.results[0]] = None
                waiting.append(reader.results[0])
    return list(found)


def _bound(value: SSAValue) -> float:
    """How far constants of the element type may be off."""
    return 1e-4 if tensor_type(value).element_type in (f32, f64) else 2e-2


def _is_near(row: Row | None, wanted: Row, bound: float) -> bool:
    if row is None or row.shape != wanted.shape:
        return False
    return bool(np.abs(row - wanted).max() <= bound * np.abs(wanted).max())
