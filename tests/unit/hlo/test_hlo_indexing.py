"""Indexing maps of HLO ops: the vectors of XLA's indexing document, and runtime variables."""

from typing import Any

import numpy as np
import pytest

from hlo2tx8.hlo import TensorLike, spec_of
from hlo2tx8.hlo.types import dtype
from hlo2tx8.indexing import IndexingMap

DOT = type("Numbers", (), {})()
DOT.lhs_batching_dimensions = DOT.rhs_batching_dimensions = (0,)
DOT.lhs_contracting_dimensions, DOT.rhs_contracting_dimensions = (2,), (1,)


def maps(
    name: str, result: tuple[int, ...], *operands: tuple[int, ...], layouts: tuple[Any, ...] = (), **attributes: Any
) -> list[str]:
    """The maps of all operands as text without the domain, if that is the whole result."""
    f32 = dtype("float32")
    spec = spec_of(name)
    assert spec.indexing is not None
    kinds = [TensorLike(s, f32, layouts[i + 1] if layouts else None) for i, s in enumerate(operands)]
    found = spec.indexing(attributes, TensorLike(result, f32, layouts[0] if layouts else None), tuple(kinds))
    return [_short(m, result) for per_operand in found for m in per_operand]


def _short(map_: IndexingMap, result: tuple[int, ...]) -> str:
    text = str(map_)
    arrow, _, domain = text.partition(", domain: ")
    whole = ", ".join(f"d{i} in [0, {n - 1}]" for i, n in enumerate(result))
    return arrow if domain == whole else arrow + " | " + domain.replace(whole + ", ", "")


@pytest.mark.parametrize(
    ("name", "result", "operands", "attributes", "expected"),
    [
        (
            "broadcast_in_dim",
            (10, 20, 30),
            ((20,),),
            {"broadcast_dimensions": (1,)},
            ["(d0, d1, d2) -> (d1)"],
        ),
        (
            "broadcast_in_dim",
            (10, 20),
            ((1, 20),),
            {"broadcast_dimensions": (0, 1)},
            ["(d0, d1) -> (0, d1)"],
        ),
        (
            "transpose",
            (3, 6, 128, 12288),
            ((3, 12288, 6, 128),),
            {"permutation": (0, 2, 3, 1)},
            ["(d0, d1, d2, d3) -> (d0, d3, d1, d2)"],
        ),
        (
            "reverse",
            (1, 17, 9, 9),
            ((1, 17, 9, 9),),
            {"dimensions": (1, 2)},
            ["(d0, d1, d2, d3) -> (d0, d1 * -1 + 16, d2 * -1 + 8, d3)"],
        ),
        (
            "slice",
            (5, 3, 25),
            ((10, 20, 50),),
            {"start_indices": (5, 3, 0), "limit_indices": (10, 20, 50), "strides": (1, 7, 2)},
            ["(d0, d1, d2) -> (d0 + 5, d1 * 7 + 3, d2 * 2)"],
        ),
        ("reshape", (32,), ((4, 8),), {}, ["(d0) -> (d0 floordiv 8, d0 mod 8)"]),
        ("reshape", (4, 8), ((32,),), {}, ["(d0, d1) -> (d0 * 8 + d1)"]),
        ("reshape", (8, 4), ((4, 8),), {}, ["(d0, d1) -> (d0 floordiv 2, d1 + d0 mod 2 * 4)"]),
        ("reshape", (32, 3, 4), ((4, 8, 12),), {}, ["(d0, d1, d2) -> (d0 floordiv 8, d0 mod 8, d1 * 4 + d2)"]),
        ("reshape", (6, 1, 5), ((1, 6, 5),), {}, ["(d0, d1, d2) -> (0, d0, d2)"]),
        ("reshape", (), ((1, 1),), {}, ["() -> (0, 0)"]),
        (
            "pad",
            (12, 16),
            ((4, 4), ()),
            {"edge_padding_low": (1, 4), "edge_padding_high": (4, 8), "interior_padding": (1, 0)},
            [
                "(d0, d1) -> ((d0 + 1) floordiv 2 - 1, d1 - 4) | d0 in [1, 7], d1 in [4, 7], (d0 + 1) mod 2 in [0, 0]",
                "(d0, d1) -> ()",
            ],
        ),
        (
            "concatenate",
            (2, 33, 7),
            ((2, 5, 7), (2, 11, 7), (2, 17, 7)),
            {"dimension": 1},
            [
                "(d0, d1, d2) -> (d0, d1, d2) | d0 in [0, 1], d1 in [0, 4], d2 in [0, 6]",
                "(d0, d1, d2) -> (d0, d1 - 5, d2) | d0 in [0, 1], d1 in [5, 15], d2 in [0, 6]",
                "(d0, d1, d2) -> (d0, d1 - 16, d2) | d0 in [0, 1], d1 in [16, 32], d2 in [0, 6]",
            ],
        ),
        (
            "reduce",
            (10,),
            ((256, 10), ()),
            {"dimensions": (0,)},
            ["(d0)[s0] -> (s0, d0) | s0 in [0, 255]", "(d0) -> ()"],
        ),
        (
            "dot_general",
            (4, 128, 64),
            ((4, 128, 256), (4, 256, 64)),
            {"dot_dimension_numbers": DOT},
            ["(d0, d1, d2)[s0] -> (d0, d1, s0) | s0 in [0, 255]", "(d0, d1, d2)[s0] -> (d0, s0, d2) | s0 in [0, 255]"],
        ),
        (
            "dynamic_slice",
            (1, 32),
            ((2, 258), (), ()),
            {"slice_sizes": (1, 32)},
            [
                "(d0, d1){rt0, rt1} -> (d0 + rt0, d1 + rt1) | rt0 in [0, 1], rt1 in [0, 226]",
                "(d0, d1) -> ()",
                "(d0, d1) -> ()",
            ],
        ),
        ("add", (2, 3), ((2, 3), (2, 3)), {}, ["(d0, d1) -> (d0, d1)"] * 2),
        ("clamp", (2, 3), ((), (2, 3), ()), {}, ["(d0, d1) -> ()", "(d0, d1) -> (d0, d1)", "(d0, d1) -> ()"]),
        ("bitcast_convert", (2, 4), ((2,),), {}, ["(d0, d1) -> (d0)"]),
        ("bitcast_convert", (2,), ((2, 4),), {}, ["(d0)[s0] -> (d0, s0) | s0 in [0, 3]"]),
        ("iota", (3, 4), (), {"iota_dimension": 1}, []),
    ],
)
def test_vectors(name: str, result: Any, operands: Any, attributes: Any, expected: list[str]):
    assert maps(f"stablehlo.{name}", result, *operands, **attributes) == expected


def test_dynamic_update_slice_writes_a_box():
    operand, update, *_ = maps("stablehlo.dynamic_update_slice", (20, 30), (20, 30), (5, 10), (), ())
    assert operand == "(d0, d1) -> (d0, d1)"
    assert update == (
        "(d0, d1){rt0, rt1} -> (d0 - rt0, d1 - rt1) | rt0 in [0, 15], rt1 in [0, 20], d0 - rt0 in [0, 4], d1 - rt1 in [0, 9]"
    )


def test_bitcast_reads_through_both_layouts():
    column_to_row = maps("hlo.bitcast", (8, 4), (4, 8), layouts=((1, 0), (0, 1)))
    assert column_to_row == ["(d0, d1) -> (d1, d0)"]
    x = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    result = TensorLike((8, 4), dtype("float32"), (1, 0))
    (found,) = spec_of("hlo.bitcast").evaluate({"operand_layouts": ((0, 1),)}, (result,), x)
    assert np.array_equal(found, x.T)


def test_chlo_broadcasts_trailing_dimensions():
    assert maps("chlo.broadcast_add", (2, 4, 3), (2, 1, 3), (4, 1)) == [
        "(d0, d1, d2) -> (d0, 0, d2)",
        "(d0, d1, d2) -> (d1, 0)",
    ]
    assert maps("chlo.broadcast_add", (2, 3), (2,), (2, 3), broadcast_dimensions=(0,)) == [
        "(d0, d1) -> (d0)",
        "(d0, d1) -> (d0, d1)",
    ]
