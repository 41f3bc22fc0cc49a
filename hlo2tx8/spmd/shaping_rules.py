"""Rules of operations that compute each element alone, or only move elements."""
# pyright: basic

from collections.abc import Callable
from math import gcd
from typing import Any

from hlo2tx8.spmd.sharding_rule import Rule, Shapes, alike, integer, integers, splat_of


def elementwise(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """Scalars, as of select and clamp, have no dimensions."""
    if any(shape not in ([], results[0]) for shape in (*operands, *results)):
        return
    dims = rule.factors(results[0])
    rule.operands = [dims if shape else [] for shape in operands]
    rule.results = [dims for _ in results]


def _each_alone(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """optimization_barrier."""
    rule.operands = [rule.factors(shape) for shape in operands]
    rule.results = rule.operands


def _new(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """constant and iota: of equal elements along all dimensions but one."""
    if op.name == "stablehlo.constant":
        if splat_of(op) is not None:
            rule.results = [rule.factors(results[0])]
        return
    along = integer(op, "iota_dimension")
    rule.results = [[None if d == along else rule.factor(size) for d, size in enumerate(results[0])]]


def _transpose(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    rule.operands = [rule.factors(operands[0])]
    rule.results = [[rule.operands[0][d] for d in integers(op, "permutation")]]


def _broadcast(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    rule.results = [rule.factors(results[0])]
    for d, into in enumerate(integers(op, "broadcast_dimensions")):
        if operands[0][d] == results[0][into]:
            rule.operands[0][d] = rule.results[0][into]


def _reshape(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """[8, 4, 3] to [32, 3]: the first dimensions of both, of every stretch of as many elements."""
    (a,), (b,) = operands, results
    i = j = 0
    while i < len(a) and j < len(b):
        if 1 in (a[i], b[j]):
            i, j = i + (a[i] == 1), j + (b[j] == 1)
            continue
        rule.operands[0][i] = rule.results[0][j] = rule.factor(gcd(a[i], b[j]))
        left, right = a[i], b[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * a[i], i + 1
            else:
                right, j = right * b[j], j + 1


def _concatenate(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    alike(op, rule, operands, results, {integer(op, "dimension")})


def _reverse(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    alike(op, rule, operands, results, set(integers(op, "dimensions")))


def _sort(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    alike(op, rule, operands, results, {integer(op, "dimension")})


def _slice(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    alike(op, rule, operands, results, {d for d, size in enumerate(operands[0]) if size != results[0][d]})
    rule.attributes = {"limit_indices": rule.results[0]}


def _pad(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    amounts = (integers(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    alike(op, rule, operands, results, {d for d, all_ in enumerate(zip(*amounts, strict=True)) if any(all_)})


def _dynamic_slice(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    alike(op, rule, operands, results, {d for d, size in enumerate(operands[0]) if size != results[0][d]})
    rule.attributes = {"slice_sizes": rule.results[0]}


def _dynamic_update_slice(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    alike(op, rule, operands, results, {d for d, size in enumerate(operands[0]) if size != operands[1][d]})


RULES: dict[str, Callable[[Any, Rule, Shapes, Shapes], None]] = {
    "optimization_barrier": _each_alone,
    "constant": _new,
    "iota": _new,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "concatenate": _concatenate,
    "reverse": _reverse,
    "sort": _sort,
    "slice": _slice,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}
