"""Shaping ops on tensors of many steps with odd tails, of rank 6, with edges of pads and pieces inside a step: bit for bit."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.hlo import TensorLike, spec_of
from hlo2tx8.hlo.types import dtype

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One shaping op on operands of these shapes; `fill` adds a rank-0 operand."""

    op: str
    operands: tuple[Shape, ...]
    result: Shape
    attributes: dict[str, Any]
    fill: bool = False

    def __str__(self) -> str:
        shapes = "+".join("x".join(map(str, s)) for s in self.operands)
        return f"{self.op}-{shapes}-{'x'.join(map(str, self.result))}"


def transpose(shape: Shape, order: Shape) -> Case:
    return Case("transpose", (shape,), tuple(shape[i] for i in order), {"permutation": order})


def reverse(shape: Shape, *dims: int) -> Case:
    return Case("reverse", (shape,), shape, {"dimensions": dims})


def slice_(shape: Shape, start: Shape, limit: Shape, strides: Shape) -> Case:
    result = tuple(-(-(b - a) // s) for a, b, s in zip(start, limit, strides, strict=True))
    return Case("slice", (shape,), result, {"start_indices": start, "limit_indices": limit, "strides": strides})


def pad(shape: Shape, low: Shape, high: Shape, interior: Shape) -> Case:
    result = tuple(n + a + b + (n - 1) * k for n, a, b, k in zip(shape, low, high, interior, strict=True))
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return Case("pad", (shape,), result, dict(zip(names, (low, high, interior), strict=True)), fill=True)


def concatenate(along: int, *shapes: Shape) -> Case:
    first = shapes[0]
    result = (*first[:along], sum(s[along] for s in shapes), *first[along + 1 :])
    return Case("concatenate", shapes, result, {"dimension": along})


def broadcast(shape: Shape, dims: Shape, result: Shape) -> Case:
    return Case("broadcast_in_dim", (shape,), result, {"broadcast_dimensions": dims})


def reshape(shape: Shape, result: Shape) -> Case:
    return Case("reshape", (shape,), result, {})


CASES = (
    *(transpose(s, o) for s, o in (((777, 1003), (1, 0)), ((2, 100003), (1, 0)), ((31, 65, 129), (2, 0, 1)))),
    *(transpose((5, 7, 6, 8, 9, 11), o) for o in ((5, 3, 1, 4, 2, 0), (0, 2, 1, 3, 5, 4))),
    reverse((100003,), 0),
    *(reverse((301, 407), *d) for d in ((0,), (1,), (0, 1))),
    *(reverse((3, 5, 7, 9, 11, 13), *d) for d in ((0, 2, 5), (1, 2, 3, 4))),
    slice_((300007,), (5,), (300001,), (17,)),
    slice_((777, 1003), (3, 1), (770, 1001), (2, 3)),
    slice_((37, 41, 501), (1, 2, 3), (36, 40, 500), (2, 1, 7)),
    pad((100003,), (-17,), (33,), (0,)),
    pad((50003,), (-17,), (33,), (2,)),
    pad((301, 407), (-3, 5), (7, -9), (1, 2)),
    pad((17, 61, 103), (1, -2, 3), (0, 5, -7), (3, 0, 1)),
    pad((3, 4, 2, 5, 1, 7), (1, -1, 0, 2, 0, -2), (0, 1, 3, -1, 2, 0), (0, 1, 0, 2, 5, 0)),
    concatenate(0, (1,), (3,), (100001,), (7,), (0,)),
    concatenate(1, (301, 1), (301, 407), (301, 13)),
    concatenate(1, (9, 5, 300), (9, 7, 300), (9, 0, 300), (9, 1, 300)),
    broadcast((), (), (100003,)),
    broadcast((301, 1), (0, 1), (301, 407)),
    broadcast((33, 17), (2, 0), (17, 65, 33)),
    broadcast((5, 7), (1, 4), (3, 5, 11, 13, 7, 2)),
    reshape((301, 407), (407, 301)),
    reshape((6, 10, 15, 77), (15, 4, 11, 105)),
    *(reverse(s) for s in ((), (0,), (3, 0, 5))),
    *(transpose(s, o) for s, o in (((), ()), ((4, 0, 3), (1, 2, 0)))),
    *(pad(s, (2,) * len(s), (1,) * len(s), (0,) * len(s)) for s in ((), (5,))),
)


def text(case: Case, element: str) -> str:
    types = [_type(s, element) for s in (*case.operands, *([()] if case.fill else []))]
    names = [f"%x{i}" for i in range(len(types))]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    attributes = ", ".join(f"{k} = {_attribute(v)}" for k, v in case.attributes.items())
    result = _type(case.result, element)
    body = f'%r = "stablehlo.{case.op}"({", ".join(names)}) {{{attributes}}} : ({", ".join(types)}) -> {result}'
    return f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"


def _type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def _attribute(value: int | Shape) -> str:
    if isinstance(value, int):
        return f"{value} : i64"
    return f"array<i64{':' if value else ''} {', '.join(map(str, value))}>"


@pytest.mark.parametrize("element", ["i8", "bf16", "f32", "i64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_shaping(case: Case, element: str) -> None:
    kind = dtype({"i8": "int8", "bf16": "bfloat16", "f32": "float32", "i64": "int64"}[element])
    rng = np.random.default_rng(1)
    shapes = (*case.operands, *([()] if case.fill else []))
    inputs = [rng.integers(0, 256, prod(s) * kind.itemsize, np.uint8).view(kind).reshape(s) for s in shapes]
    (expected,) = spec_of(f"stablehlo.{case.op}").evaluate(case.attributes, (TensorLike(case.result, kind),), *inputs)
    actual = np.asarray(hlo2tx8.compile(text(case, element)).run(*inputs))
    assert (actual.shape, actual.dtype) == (case.result, kind)
    assert actual.tobytes() == np.ascontiguousarray(expected).tobytes()
