"""Passes inline-calls and simplify-control: what is left of a module's control flow, and that it means the same."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.trip_count import trip_count
from hlo2tx8.passes.inline_calls import InlineCallsPass
from hlo2tx8.passes.recognize_coarse import RecognizeCoarsePass
from hlo2tx8.passes.rules.loops import TRIP_COUNT
from hlo2tx8.passes.simplify_control import SimplifyControlPass

X = np.arange(6, dtype=np.int32).reshape(2, 3)


def simplified(body: str, *inputs: np.ndarray, before: str = "") -> ModuleOp:
    """The module of a @main with that body, which the passes must leave with its answers."""
    types = {np.dtype(np.int32): "i32", np.dtype(bool): "i1"}
    parameters = ", ".join(
        f"%{'abc'[i]}: tensor<{''.join(f'{n}x' for n in a.shape)}{types[a.dtype]}>" for i, a in enumerate(inputs)
    )
    text = f"module {{ {before} func.func @main({parameters}) -> tensor<2x3xi32> {{ {body} }} }}"
    module = load(text)
    expected = evaluate(load(text), *inputs)
    InlineCallsPass().apply(Context(), module)
    RecognizeCoarsePass().apply(Context(), module)
    SimplifyControlPass().apply(Context(), module)
    module.verify()
    for found, wanted in zip(evaluate(module, *inputs), expected, strict=True):
        assert np.array_equal(found, wanted)
    return module


def names(module: ModuleOp) -> list[str]:
    return [op.name.removeprefix("stablehlo.") for op in module.walk() if op.name.startswith(("stablehlo", "func.call"))]


def loop_of(module: ModuleOp) -> Operation:
    return next(op for op in module.walk() if op.name == "stablehlo.while")


def while_loop(start: int, compare: str, bound: int, step: int, dtype: str = "i32") -> str:
    """Adds %a to itself while a counter runs; %a goes through as state too."""
    return f"""
      %start = stablehlo.constant dense<{start}> : tensor<{dtype}>
      %r:3 = stablehlo.while(%i = %start, %x = %a, %y = %a) : tensor<{dtype}>, tensor<2x3xi32>, tensor<2x3xi32> cond {{
        %bound = stablehlo.constant dense<{bound}> : tensor<{dtype}>
        %go = stablehlo.compare {compare}, %i, %bound : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      }} do {{
        %step = stablehlo.constant dense<{step}> : tensor<{dtype}>
        %next = stablehlo.add %i, %step : tensor<{dtype}>
        %sum = stablehlo.add %x, %y : tensor<2x3xi32>
        stablehlo.return %next, %sum, %y : tensor<{dtype}>, tensor<2x3xi32>, tensor<2x3xi32>
      }}
      return %r#1 : tensor<2x3xi32>"""


@pytest.mark.parametrize(
    ("arguments", "turns"),
    [
        ((0, "LT", 5, 1), 5),
        ((5, "LT", 5, 1), 0),
        ((0, "LE", 5, 2), 3),
        ((7, "GT", -2, -3), 3),
        ((7, "GE", -2, -3), 4),
        ((0, "NE", 6, 3), 2),
        ((0, "NE", 6, 4), None),
        ((0, "GT", -5, 1), None),
        ((0, "LT", 120, 100, "i8"), None),  # wraps: 0, 100, -56, ...
        ((0, "LT", 250, 99, "ui8"), None),  # 0, 99, 198, 41, ...
        ((0, "LT", 198, 99, "ui8"), 2),
    ],
)
def test_turns_of_counted_loops(arguments: tuple[int, str, int, int], turns: int | None) -> None:
    module = load(f"module {{ func.func @main(%a: tensor<2x3xi32>) -> tensor<2x3xi32> {{ {while_loop(*arguments)} }} }}")
    assert trip_count(loop_of(module)) == turns


def test_state_that_no_turn_changes_goes() -> None:
    loop = loop_of(simplified(while_loop(0, "LT", 5, 1), X))
    assert len(loop.operands) == 2
    assert str(loop.attributes[TRIP_COUNT]) == "5 : i64"


def test_loops_of_no_or_one_turn_go() -> None:
    assert names(simplified(while_loop(5, "LT", 5, 1), X)) == []
    assert names(simplified(while_loop(4, "LT", 5, 1), X)) == ["add"]


def test_state_nobody_needs_and_equal_counters_go() -> None:
    body = """
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %r:4 = stablehlo.while(%i = %zero, %j = %zero, %x = %a, %unread = %a)
          : tensor<i32>, tensor<i32>, tensor<2x3xi32>, tensor<2x3xi32> cond {
        %bound = stablehlo.constant dense<3> : tensor<i32>
        %go = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %i1 = stablehlo.add %i, %one : tensor<i32>
        %j1 = stablehlo.add %one, %j : tensor<i32>
        %spread = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<i32>) -> tensor<2x3xi32>
        %x1 = stablehlo.multiply %x, %spread : tensor<2x3xi32>
        %u1 = stablehlo.multiply %unread, %x1 : tensor<2x3xi32>
        stablehlo.return %i1, %j1, %x1, %u1 : tensor<i32>, tensor<i32>, tensor<2x3xi32>, tensor<2x3xi32>
      }
      return %r#2 : tensor<2x3xi32>"""
    module = simplified(body, X)
    assert len(loop_of(module).operands) == 2
    assert names(module).count("multiply") == 1


def test_known_branches_barriers_and_maps() -> None:
    body = """
      %p = stablehlo.constant dense<7> : tensor<i32>
      %c = "stablehlo.case"(%p) ({
        stablehlo.return %a : tensor<2x3xi32>
      }, {
        %n = stablehlo.negate %a : tensor<2x3xi32>
        stablehlo.return %n : tensor<2x3xi32>
      }) : (tensor<i32>) -> tensor<2x3xi32>
      %b:2 = stablehlo.optimization_barrier %c, %a : tensor<2x3xi32>, tensor<2x3xi32>
      %m = "stablehlo.map"(%b#0, %b#1) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%x: tensor<i32>, %y: tensor<i32>):
        %two = stablehlo.constant dense<2> : tensor<i32>
        %d = stablehlo.multiply %y, %two : tensor<i32>
        %s = stablehlo.add %x, %d : tensor<i32>
        stablehlo.return %s : tensor<i32>
      }) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
      return %m : tensor<2x3xi32>"""
    assert sorted(names(simplified(body, X))) == ["add", "broadcast_in_dim", "constant", "multiply", "negate"]


def test_calls_inside_of_loops_are_inlined() -> None:
    before = "func.func private @twice(%x: tensor<2x3xi32>) -> tensor<2x3xi32> { "
    before += "%0 = stablehlo.add %x, %x : tensor<2x3xi32> return %0 : tensor<2x3xi32> }"
    call = '%t = "stablehlo.composite"(%c) <{name = "my.twice", decomposition = @twice}> : (tensor<2x3xi32>) -> tensor<2x3xi32>'
    body = f"""%r = "stablehlo.if"(%b) ({{
        %c = stablehlo.negate %a : tensor<2x3xi32>
        {call}
        stablehlo.return %t : tensor<2x3xi32>
      }}, {{ stablehlo.return %a : tensor<2x3xi32> }}) : (tensor<i1>) -> tensor<2x3xi32>
      return %r : tensor<2x3xi32>"""
    module = simplified(body, X, np.array(True), before=before)
    assert names(module) == ["if", "negate", "add", "return", "return"]


def test_custom_calls() -> None:
    text = """module {{ func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {{
      %0 = stablehlo.custom_call @{target}(%a) : (tensor<4xi32>) -> tensor<4xi32>
      return %0 : tensor<4xi32> }} }}"""
    module = load(text.format(target="Sharding"))
    SimplifyControlPass().apply(Context(), module)
    assert names(module) == []
    with pytest.raises(CompileError, match="custom call of target my_kernel is not supported"):
        SimplifyControlPass().apply(Context(), load(text.format(target="my_kernel")))


def test_sharding_constraints() -> None:
    module = load("""module {
      sdy.mesh @mesh = <["x"=1]>
      func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {
        %0 = sdy.sharding_constraint %a <@mesh, [{"x"}]> : tensor<4xi32>
        return %0 : tensor<4xi32> } }""")
    SimplifyControlPass().apply(Context(), module)
    assert names(module) == []


def test_what_only_keeps_its_operand_is_dropped() -> None:
    sink = "stablehlo.custom_call @dce_sink(%a) {has_side_effect = true} : (tensor<2xi32>) -> ()"
    module = load(f"module {{ func.func @main(%a: tensor<2xi32>) -> tensor<2xi32> {{ {sink} return %a : tensor<2xi32> }} }}")
    SimplifyControlPass().apply(Context(), module)
    assert names(module) == []
