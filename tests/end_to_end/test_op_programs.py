"""Every elementwise and shaping op of StableHLO and chlo, compiled alone, on edge values: within the op's ULP of its reference."""

from collections import defaultdict

import numpy as np
import pytest
from op_programs import DTYPES, OpProgram, programs, ulps

import hlo2tx8
from hlo2tx8.device.emulator import Emulator, Mode
from hlo2tx8.hlo import Kind, TensorLike, all_specs
from hlo2tx8.hlo.types import dtype
from hlo2tx8.runtime.executable import Executable

BY_OP: dict[str, list[OpProgram]] = defaultdict(list)
for one in programs():
    BY_OP[one.spec.name].append(one)


def check(program: OpProgram, executable: Executable, mode: Mode) -> None:
    inputs = program.inputs()
    with np.errstate(all="ignore"):
        expected = program.spec.evaluate(program.sample.attributes, program.sample.results, *inputs)[0]
    (actual,) = Emulator(executable.chip, mode).run(executable.program, inputs)
    actual = executable.signature.outputs[0].from_device(actual)
    off = ulps(actual.reshape(expected.shape), expected, program.spec.ulp_floor)
    bound = program.spec.complex_ulp if (inputs and inputs[0].dtype.kind == "c") or expected.dtype.kind == "c" else program.spec.ulp
    assert off.max(initial=0.0) <= bound, f"{program} in mode {mode}: {off.max()} ULP\n{program.text}"
    if program.spec.kind is Kind.SHAPING:
        assert actual.tobytes() == np.ascontiguousarray(expected).tobytes(), f"{program} moves other bits"


@pytest.mark.parametrize("name", BY_OP)
def test_op(name: str) -> None:
    seen: set[object] = set()
    for program in BY_OP[name]:
        executable = hlo2tx8.compile(program.text)
        check(program, executable, "fast")
        dtypes = tuple(t.dtype.name for t in (*program.sample.operands[:1], *program.sample.results))
        # numpy is slow, and the tiers are held together record by record elsewhere
        if dtypes not in seen and not any("complex" in d or d == "float64" for d in dtypes):
            seen.add(dtypes)
            check(program, executable, "definition")
            check(program, executable, "strict")


def test_every_op_has_a_program() -> None:
    names = {s.name for s in all_specs() if s.kind in (Kind.ELEMENTWISE, Kind.SHAPING) and not s.name.startswith("hlo.")}
    assert names - set(BY_OP) == {"chlo.constant_like"}


@pytest.mark.parametrize("name", [name for name in DTYPES if "complex" not in name])
def test_constant_like(name: str) -> None:
    like = TensorLike((3, 5), dtype(name))
    element = str(like)[len("tensor<3x5x") : -1]
    value = "true" if name == "bool" else f"{'2.5' if 'float' in name else '3'} : {element}"
    body = f'%r = "chlo.constant_like"(%x) {{value = {value}}} : ({like}) -> {like}\nreturn %r : {like}'
    executable = hlo2tx8.compile(f"func.func @main(%x: {like}) -> {like} {{\n{body}\n}}")
    expected = np.full(like.shape, float(value.split(" ", maxsplit=1)[0].replace("true", "1")), like.dtype)
    assert np.asarray(executable.run(np.zeros_like(expected))).tobytes() == expected.tobytes()


def test_ranks_and_dtypes_are_covered() -> None:
    every = [t for programs_of in BY_OP.values() for p in programs_of for t in (*p.sample.operands, *p.sample.results)]
    assert {len(t.shape) for t in every} >= set(range(7))
    assert {t.dtype.name for t in every} == set(DTYPES)
    assert any(0 in t.shape for t in every)
