"""Indexing maps against brute force and against islpy."""

import random
from collections.abc import Sequence

import islpy as isl
import numpy as np
import pytest

from hlo2tx8.indexing import (
    Const,
    Dim,
    Expr,
    IndexingMap,
    Interval,
    Simplifier,
    Sym,
    Variable,
    delinearize,
    evaluate_expr,
    linearize,
    simplify_expr,
)
from hlo2tx8.indexing.text import parse_map, print_map

SIZES = (5, 7, 6)
GRID = np.indices(SIZES).reshape(3, -1)


def random_expr(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice([Dim(0), Dim(1), Sym(0), Const(rng.randint(-5, 9))])
    kind, a = rng.random(), random_expr(rng, depth - 1)
    if kind < 0.4:
        return a + random_expr(rng, depth - 1)
    if kind < 0.6:
        return a * rng.choice([-3, -1, 2, 3, 4, 6, 8])
    if kind < 0.8:
        return a // rng.choice([2, 3, 4, 6, 12])
    return a % rng.choice([2, 3, 4, 6, 12])


def random_domain(rng: random.Random) -> tuple[list[Interval], list[np.ndarray]]:
    starts = [rng.randint(-4, 2) for _ in SIZES]
    intervals = [Interval(s, s + n - 1) for s, n in zip(starts, SIZES, strict=True)]
    return intervals, [g + s for g, s in zip(GRID, starts, strict=True)]


def test_simplified_expressions_keep_their_values_and_bounds() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        expr = random_expr(rng, rng.randint(1, 4))
        intervals, points = random_domain(rng)
        simple = simplify_expr(expr, intervals[:2], intervals[2:])
        before = np.broadcast_to(evaluate_expr(expr, points[:2], points[2:]), GRID[0].shape)
        assert np.array_equal(before, np.broadcast_to(evaluate_expr(simple, points[:2], points[2:]), GRID[0].shape))
        bounds = Simplifier(intervals[:2], intervals[2:]).bounds(simple)
        assert bounds.lo <= before.min() and before.max() <= bounds.hi


def test_quotients_and_remainders_of_different_forms_of_a_number_recombine() -> None:
    tile, lane = Dim(0), Sym(0)
    inner = lane + tile % 2 * 56
    offset = lane % 8 + (tile * 7 + lane // 8) % 2 * 8 + inner // 16 * 16 + tile // 2 * 112
    assert simplify_expr(offset, [Interval(0, 15)], [Interval(0, 55)]) == tile * 56 + lane


def test_text_form_round_trips() -> None:
    rng = random.Random(2)
    for _ in range(500):
        intervals, points = random_domain(rng)
        variables = [Variable(i.lo, i.hi) for i in intervals]
        m = IndexingMap((variables[0], variables[1]), (variables[2],), (), (random_expr(rng, 3),))
        m = m.with_constraint(random_expr(rng, 2), Interval(-3, 4))
        again = IndexingMap.parse(str(m))
        (a,), mask = m.evaluate(points[:2], points[2:])
        (b,), mask_again = again.evaluate(points[:2], points[2:])
        assert np.array_equal(a, b) and np.array_equal(mask, mask_again)
        assert str(IndexingMap.parse(str(again))) == str(again)


def test_composition_applies_one_map_after_the_other() -> None:
    rng = random.Random(3)
    for _ in range(500):
        intervals, points = random_domain(rng)
        variables = [Variable(i.lo, i.hi) for i in intervals]
        inner = IndexingMap((variables[0], variables[1]), (variables[2],), (), (random_expr(rng, 2), random_expr(rng, 2)))
        outer = IndexingMap((Variable(-3, 9), Variable(0, 5)), (), (), (Dim(0) * 2 + Dim(1) % 3,))
        outer = outer.with_constraint(Dim(0) + Dim(1), Interval(-2, 8))
        for composed in (outer.compose(inner), outer.compose(inner).simplify()):
            middle, mask = inner.evaluate(points[:2], points[2:])
            (expected,), inside = outer.evaluate(middle)
            expected, inside = np.broadcast_arrays(expected, mask & inside)
            (actual,), composed_mask = composed.evaluate(points[:2], points[2:])
            actual, composed_mask, _ = np.broadcast_arrays(actual, composed_mask, GRID[0])
            assert np.array_equal(inside & np.ones(GRID[0].shape, bool), composed_mask)
            assert np.array_equal(np.broadcast_to(expected, GRID[0].shape)[composed_mask], actual[composed_mask])


def isl_map(m: IndexingMap) -> isl.Map:
    """The map as isl sees it."""

    def text(expr: Expr, dims: Sequence[str], syms: Sequence[str]) -> str:
        match expr:
            case Const():
                return str(expr.value)
            case Dim():
                return dims[expr.index]
            case Sym():
                return syms[expr.index]
            case _:
                lhs, rhs = text(expr.lhs, dims, syms), text(expr.rhs, dims, syms)
                forms = {
                    "Add": f"({lhs} + {rhs})",
                    "Mul": f"({rhs} * ({lhs}))",
                    "FloorDiv": f"floor(({lhs})/{rhs})",
                    "Mod": f"(({lhs}) mod {rhs})",
                }
                return forms[type(expr).__name__]

    dims = [f"d{i}" for i in range(len(m.dims))]
    syms = [f"s{i}" for i in range(len(m.syms))]
    names = dims + syms
    conditions = [f"{v.lo} <= {n} <= {v.hi}" for n, v in zip(names, (*m.dims, *m.syms), strict=True)]
    conditions += [f"{i.lo} <= {text(e, dims, syms)} <= {i.hi}" for e, i in m.constraints]
    results = ", ".join(text(r, dims, syms) for r in m.results)
    return isl.Map(f"{{ [{', '.join(names)}] -> [{results}] : {' and '.join(conditions)} }}")


@pytest.mark.parametrize("seed", range(40))
def test_simplified_maps_are_the_same_isl_map(seed: int) -> None:
    rng = random.Random(seed)
    intervals, _ = random_domain(rng)
    variables = [Variable(i.lo, i.hi) for i in intervals]
    m = IndexingMap((variables[0], variables[1]), (variables[2],), (), (random_expr(rng, 3),))
    m = m.with_constraint(random_expr(rng, 2), Interval(-3, 6))
    assert isl_map(m).is_equal(isl_map(m.simplify()))


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 4, 1, 3), (2,), (), (6, 1, 512), (2, 3, 1, 5, 2, 1)])
def test_linearize_and_delinearize_are_inverse(shape: tuple[int, ...]) -> None:
    dims = [Dim(i) for i in range(len(shape))]
    intervals = [Interval(0, n - 1) for n in shape]
    expected = [d if n > 1 else Const(0) for d, n in zip(dims, shape, strict=True)]
    assert [simplify_expr(e, intervals, []) for e in delinearize(linearize(dims, shape), shape)] == expected
    total = int(np.prod(shape))
    linear = simplify_expr(linearize(delinearize(Dim(0), shape), shape), [Interval(0, total - 1)], [])
    assert linear == (Dim(0) if total > 1 else Const(0))


def gelu_split() -> IndexingMap:
    linear = Dim(0) * 786432 + Sym(0) * 16384 + Sym(1)
    variables = Variable(0, 15, "tile"), Variable(0, 47, "step"), Variable(0, 16383, "lane")
    return IndexingMap(variables[:1], variables[1:], (), delinearize(linear, (6, 512, 4096)))


def test_the_flattened_map_of_a_contiguous_split_is_affine() -> None:
    split = gelu_split()
    flat = split.with_results([linearize(split.results, (6, 512, 4096))]).simplify()
    assert str(flat.results[0]) == str(Dim(0) * 786432 + Sym(0) * 16384 + Sym(1))


def test_grids_of_boxes_are_bijections_only_if_borders_are_cut_off() -> None:
    text = (
        "(d0)[s0, s1, s2] -> ((d0 * 116 + s0) floordiv 43 * 96 + s1, (d0 * 116 + s0) mod 43 * 96 + s2), "
        "domain: d0 in [0, 15], s0 in [0, 115], s1 in [0, 95], s2 in [0, 95], d0 * 116 + s0 in [0, 1848]"
    )
    rows = "(d0 * 116 + s0) floordiv 43 * 96 + s1 in [0, 4095]"
    columns = "(d0 * 116 + s0) mod 43 * 96 + s2 in [0, 4095]"
    whole = IndexingMap.parse(f"{text}, {rows}, {columns}")
    assert whole.is_bijection_onto((4096, 4096))
    assert not whole.is_bijection_onto((4096, 4095))
    assert not IndexingMap.parse(f"{text}, {rows}").is_bijection_onto((4096, 4096))
    assert not IndexingMap.parse(f"{text}, {columns}").is_bijection_onto((4096, 4096))
    assert IndexingMap.parse(text).is_bijection_onto((43 * 96, 43 * 96))
    assert not IndexingMap.parse(text.replace("1848", "1847")).is_bijection_onto((43 * 96, 43 * 96))
    assert not IndexingMap.parse(text.replace("s2 in [0, 95]", "s2 in [0, 96]")).is_bijection_onto((43 * 96, 43 * 96))
    assert not IndexingMap.parse(text.replace("43 * 96 + s2", "43 * 96 + s1")).is_bijection_onto((43 * 96, 43 * 96))


def test_bijections_are_proved_and_others_refused() -> None:
    split = gelu_split()
    assert split.is_bijection_onto((6, 512, 4096))
    assert not split.is_bijection_onto((6, 512, 4095))
    overlapping = split.with_results([Dim(0) * 10 + Sym(0) * 16384 + Sym(1)])
    assert not overlapping.is_bijection_onto((12582912,))
    tail = IndexingMap((Variable(0, 3),), (Variable(0, 4),), (), (Dim(0) * 5 + Sym(0),))
    assert not tail.is_bijection_onto((17,))
    assert tail.with_constraint(Dim(0) * 5 + Sym(0), Interval(0, 16)).is_bijection_onto((17,))
    assert IndexingMap.from_shape([Dim(1), Dim(0)], (4, 3)).is_bijection_onto((3, 4))


def test_bad_text_names_the_place() -> None:
    with pytest.raises(ValueError, match="column"):
        IndexingMap.parse("(d0) -> (d1), domain: d0 in [0, 3]")
    with pytest.raises(ValueError, match="range of d0"):
        IndexingMap.parse("(d0) -> (d0)")


def test_variables_of_one_name_are_told_apart_in_text() -> None:
    map = IndexingMap((Variable(0, 1, "k"),), (Variable(0, 2, "k"), Variable(0, 3, "k")), (), (Dim(0) + Sym(1), Sym(0)))
    assert str(map) == "(k)[k_1, k_2] -> (k + k_2, k_1), domain: k in [0, 1], k_1 in [0, 2], k_2 in [0, 3]"
    assert IndexingMap.parse(str(map)) == map


def test_text_reads_back_as_itself() -> None:
    rng = random.Random(6)
    for _ in range(2000):
        expr = random_expr(rng, rng.randint(1, 4)) + random_expr(rng, 2)
        intervals, points = random_domain(rng)
        variables = tuple(Variable(i.lo, i.hi) for i in intervals)
        text = print_map(IndexingMap(variables[:2], variables[2:], (), (expr,), ()))
        back = parse_map(text)
        assert print_map(back) == text
        expected = evaluate_expr(expr, points[:2], points[2:])
        np.testing.assert_array_equal(evaluate_expr(back.results[0], points[:2], points[2:]), expected)


def test_what_a_check_says_is_known():
    line = Sym(0) * 2368 + Sym(1)
    ranges = [Interval(0, 15)], [Interval(0, 6), Interval(0, 2367)]
    repeated = (Dim(0) * 32 + line // 512) % 32 * 512 + line % 512
    assert Simplifier(*ranges).simplify(repeated) != line
    assert Simplifier(*ranges, [(line, Interval(0, 16383))]).simplify(repeated) == Simplifier(*ranges).simplify(line)
    split = Dim(0) % 3 * 384 + Sym(1)
    ranges = [Interval(0, 15)], [Interval(0, 0), Interval(0, 383)]
    told = Simplifier(*ranges, [(Simplifier(*ranges).simplify(split), Interval(0, 1023))])
    assert told.simplify(split // 32 % 32) == told.simplify(split // 32)


def test_what_checks_say_together_is_known():
    """A check is known in the form that another one gives it: of the first two halves of rows of 65 the remainder is the column."""
    half, lane = Dim(0) * 13 + Sym(0), Sym(1)
    ranges = [Interval(0, 15)], [Interval(0, 12), Interval(0, 47)]
    column = half // 3 % 2 * 48 + lane
    checks = [(half, Interval(0, 197)), (column, Interval(0, 64))]
    row = half // 6 * 65 + column
    first = Simplifier(*ranges, [*checks, (half, Interval(0, 5))])
    assert first.simplify(row % 65) == first.simplify(half // 3 * 48 + lane)
    told = Simplifier(*ranges, checks)
    assert told.simplify(row % 65) == told.simplify(column) != first.simplify(column)
