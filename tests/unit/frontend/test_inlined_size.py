"""Calls of calls: what is inlined, and what stays a function so that a module compiles in its own size."""

import pytest
from xdsl.dialects.func import FuncOp

from hlo2tx8.errors import CapacityError
from hlo2tx8.frontend import load
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source

T = "tensor<3x5xf32>"


def levels(num: int, ops: int = 70) -> str:
    """Functions that each call the one before twice, on different operands; the first has so many ops."""
    chain = "".join(f"%{i + 1} = stablehlo.{'add' if i % 2 else 'multiply'} %{i}, %a : {T}\n" for i in range(ops))
    text = f"func.func private @f0(%a: {T}) -> {T} {{\n%0 = stablehlo.sine %a : {T}\n{chain} return %{ops} : {T}\n}}\n"
    for i in range(1, num):
        call, kind = f"func.call @f{i - 1}", f"({T}) -> {T}"
        first = f"%0 = {call}(%a) : {kind}\n%1 = stablehlo.cosine %0 : {T}\n%2 = {call}(%1) : {kind}"
        text += f"func.func private @f{i}(%a: {T}) -> {T} {{\n{first}\n%3 = stablehlo.subtract %2, %0 : {T}\nreturn %3 : {T}\n}}\n"
    main = f"func.func @main(%a: {T}) -> {T} {{\n%0 = func.call @f{num - 1}(%a) : ({T}) -> {T}\nreturn %0 : {T}\n}}"
    return f"module @levels {{\n{text}{main}\n}}"


def functions(text: str) -> list[str]:
    return [op.sym_name.data for op in load(text).walk() if isinstance(op, FuncOp)]


def test_a_small_module_is_inlined_as_a_whole() -> None:
    assert functions(levels(6)) == ["main"]


def test_of_a_large_one_large_functions_stay() -> None:
    """Those that are small with their calls are inlined into others."""
    found = functions(levels(40))
    assert found[0] == "f0"
    assert found[-1] == "main"
    assert 2 < len(found) < 20


def test_forty_levels_compile_and_are_timed_without_following_each_call() -> None:
    executable = compile_source(levels(40), Options())
    assert len(executable.program.code) < 6000
    assert executable.report.cycles > 2**40


HLO = """
HloModule calls
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""


def test_calls_of_hlo_text_and_of_reducers() -> None:
    """A call in a reducer is inlined, however large the module is."""
    text = HLO + "inner { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] call(a, b), to_apply=sum }\n"
    chain = "\n".join(f"  x{i + 1} = f32[4] {'add' if i % 2 else 'multiply'}(x{i}, x{i})" for i in range(70))
    text += f"f0 {{ x0 = f32[4] parameter(0)\n{chain}\n z = f32[] constant(0)\n"
    text += " r = f32[] reduce(x70, z), dimensions={0}, to_apply=inner\n ROOT b = f32[4] broadcast(r), dimensions={} }\n"
    for i in range(1, 12):
        calls = f"y = f32[4] call(x), to_apply=f{i - 1}\n z = f32[4] call(y), to_apply=f{i - 1}"
        text += f"f{i} {{ x = f32[4] parameter(0)\n {calls}\n ROOT s = f32[4] add(y, z) }}\n"
    text += "ENTRY main { x = f32[4] parameter(0)\n ROOT r = f32[4] call(x), to_apply=f11 }\n"
    module = load(text)
    assert len(functions(text)) > 2
    reducers = [op for op in module.walk() if op.name == "stablehlo.reduce"]
    assert not [inner for op in reducers for inner in op.walk() if inner.name == "func.call"]
    compile_source(text, Options())


def test_too_many_operations_are_refused() -> None:
    text = (
        levels(20)
        .replace("stablehlo.sine %a", "stablehlo.custom_call @Sharding(%a)")
        .replace(f"@Sharding(%a) : {T}", f"@Sharding(%a) : ({T}) -> {T}")
    )
    with pytest.raises(CapacityError, match="operations when each call is the body of what it calls"):
        load(text)
