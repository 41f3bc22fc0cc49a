"""The hero analysis names the emitters to ask, and an emitter that declines leaves the fusion to the next hero's."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from xdsl.dialects.builtin import DenseArrayBase, f32, i64
from xdsl.ir import Block, Region, SSAValue

sys.path.insert(0, str(Path(__file__).parent))
from hlo_builder import TARGET, Computation, check_all_levels, fusion_of, t

from hlo2tx8.dialects.stablehlo import OPS, ReturnOp
from hlo2tx8.emitters import EMITTERS, TAKEN, emit_fusion
from hlo2tx8.emitters.hero import HeroKind, heroes
from hlo2tx8.errors import UnsupportedError


def largest(c: Computation, x: SSAValue, dimension: int, *kept: int) -> SSAValue:
    """The maximum of x over a dimension."""
    body = Block(arg_types=[t(), t()])
    joined = OPS["maximum"](body.args, [t()], {})
    body.add_ops([joined, ReturnOp(joined.results)])
    lowest = c.constant(float("-inf"), t())
    reduce = OPS["reduce"]([x, lowest], [t(*kept)], {"dimensions": DenseArrayBase.from_list(i64, [dimension])}, [Region(body)])
    c.block.add_op(reduce)
    return reduce.results[0]


def elementwise() -> tuple[Computation, SSAValue]:
    c = Computation(t(64, 96))
    return c, c.same("tanh", c.p[0])


def transpose_with_prologue_and_epilogue() -> tuple[Computation, SSAValue]:
    c = Computation(t(96, 64), t(64, 96))
    turned = c.op("transpose", [c.same("tanh", c.p[0])], t(64, 96), permutation=[1, 0])
    return c, c.same("add", turned, c.p[1])


def broadcast() -> tuple[Computation, SSAValue]:
    c = Computation(t(64, 96), t(96))
    return c, c.same("add", c.p[0], c.op("broadcast_in_dim", [c.p[1]], c.p[0].type, broadcast_dimensions=[1]))


def concatenation(rows: int) -> tuple[Computation, SSAValue]:
    c = Computation(t(rows, 64), t(2 * rows, 64))
    whole = c.op("concatenate", [c.same("negate", c.p[0]), c.p[1]], t(3 * rows, 64), dimension=0)
    return c, c.same("tanh", whole)


def softmax_like() -> tuple[Computation, SSAValue]:
    c = Computation(t(64, 96))
    most = largest(c, c.p[0], 1, 64)
    return c, c.same("divide", c.p[0], c.op("broadcast_in_dim", [most], c.p[0].type, broadcast_dimensions=[0]))


def largest_of_rows() -> tuple[Computation, SSAValue]:
    c = Computation(t(64, 96))
    return c, largest(c, c.same("tanh", c.p[0]), 1, 64)


CASES: dict[str, tuple[Callable[[], tuple[Computation, SSAValue]], tuple[str, ...], str]] = {
    "elementwise": (elementwise, ("loop",), "loop"),
    "transpose": (transpose_with_prologue_and_epilogue, ("transpose", "loop"), "transpose"),
    "broadcast": (broadcast, ("transpose", "loop"), "loop"),
    "concatenation": (lambda: concatenation(64), ("concatenate", "transpose", "loop"), "concatenate"),
    "small concatenation": (lambda: concatenation(4), ("concatenate", "transpose", "loop"), "loop"),
    "rows": (softmax_like, ("row", "reduction", "transpose", "loop"), "row"),
    "reduction": (largest_of_rows, ("row", "reduction", "loop"), "reduction"),
}


@pytest.mark.parametrize(("make", "kinds", "taken"), CASES.values(), ids=CASES)
def test_emitters_are_asked_in_the_order_of_the_heroes(
    make: Callable[[], tuple[Computation, SSAValue]], kinds: tuple[str, ...], taken: str
) -> None:
    c, root = make()
    module = c.module(root)
    fusion, notes = fusion_of(module), list[str]()
    assert tuple(hero.kind for hero in heroes(fusion)) == kinds
    emit_fusion(fusion, "f", TARGET, notes)
    declined = [note for note in notes if " emitter declines: " in note]
    found = TAKEN.fullmatch(notes[-1])
    assert found is not None and found["emitter"] == taken and found["hero"].startswith(f"{taken}: ")
    asked = kinds[: kinds.index(taken)]
    assert [note.split(" emitter declines: ")[0] for note in declined] == [f"f: {kind}" for kind in asked]
    assert all(note.split(" emitter declines: ")[1] for note in declined)
    check_all_levels(module)


def test_every_kind_of_hero_has_the_emitter_of_its_name() -> None:
    assert [emitter.name for emitter in EMITTERS.values()] == list(EMITTERS)
    assert set(EMITTERS) == set(get_args(HeroKind))


def test_what_no_emitter_computes_is_named() -> None:
    c = Computation(t(8))
    root = c.op("cholesky", [c.p[0]], t(8, element=f32))
    with pytest.raises(UnsupportedError) as raised:
        emit_fusion(fusion_of(c.module(root)), "f", TARGET)
    assert [op.name for op in raised.value.ops] == ["stablehlo.cholesky"]
