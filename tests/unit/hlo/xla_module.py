"""Many single-op functions as one StableHLO module, so that XLA:CPU is asked once for all."""

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from hlo2tx8.hlo import OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import is_float
from hlo2tx8.tools.xla_cpu import CpuServer

Array = np.ndarray
ENUMS = {"comparison_direction": "comparison_direction", "compare_type": "comparison_type"}


@dataclass(frozen=True)
class Case:
    """One op on concrete operands."""

    spec: OpSpec
    sample: Sample
    arrays: tuple[Array, ...]

    @property
    def expected(self) -> Array:
        return self.spec.evaluate(self.sample.attributes, self.sample.results, *self.arrays)[0]

    def __str__(self) -> str:
        return f"{self.spec.name} {' '.join(map(str, self.sample.operands))} {dict(self.sample.attributes)}"


def attribute_text(name: str, value: object) -> str:
    if name in ENUMS:
        return f"{name} = #stablehlo<{ENUMS[name]} {value}>"
    if isinstance(value, tuple):
        return f"{name} = array<i64{':' if value else ''} {', '.join(map(str, value))}>"
    width = 32 if name.endswith("_bits") else 64
    return f"{name} = {value} : i{width}"


def run_cases(cases: Sequence[Case], server: CpuServer) -> list[Array]:
    """XLA:CPU's result of every case. Equal operand arrays are passed once."""
    inputs: dict[int, tuple[str, Array]] = {}
    lines: list[str] = []
    for number, case in enumerate(cases):
        for array in case.arrays:
            inputs.setdefault(id(array), (f"%a{len(inputs)}", array))
        names = ", ".join(inputs[id(a)][0] for a in case.arrays)
        attrs = ", ".join(attribute_text(k, v) for k, v in case.sample.attributes.items())
        operands = ", ".join(map(str, case.sample.operands))
        result = case.sample.results[0]
        lines.append(f'%r{number} = "{case.spec.name}"({names}) {{{attrs}}} : ({operands}) -> {result}')
    params = ", ".join(f"{name}: {TensorLike(a.shape, a.dtype)}" for name, a in inputs.values())
    types = ", ".join(str(case.sample.results[0]) for case in cases)
    results = ", ".join(f"%r{i}" for i in range(len(cases)))
    body = "\n".join(lines)
    text = f"module @m {{ func.func public @main({params}) -> ({types}) {{\n{body}\nreturn {results} : {types} }} }}"
    return server.run(text, [array for _, array in inputs.values()])


def significant(array: Array) -> Array:
    """Where the values are no subnormals and far from being some: XLA:CPU flushes those to zero."""
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    keep = np.ones(array.shape, bool)
    for part in parts:
        if not is_float(part.dtype) or part.dtype.itemsize == 1 or part.dtype == np.float16:
            continue
        tiny = float(ml_dtypes.finfo(part.dtype).smallest_normal)
        size = np.abs(part.astype(np.float64))
        keep &= (size == 0) | (size >= 4 * tiny) | np.isnan(size)
    return keep


def ulps(actual: Array, expected: Array, floor: float = 0) -> Array:
    """|actual - expected| in units of the last place of max(|expected|, floor); inf where only one is NaN or infinite."""
    if expected.dtype.kind != "c" and not is_float(expected.dtype):
        return np.where(actual == expected, 0.0, np.inf)
    kind = np.dtype(f"f{expected.dtype.itemsize // 2}") if expected.dtype.kind == "c" else expected.dtype
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, e = actual.astype(wide), expected.astype(wide)
    info = ml_dtypes.finfo(kind)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(np.abs(e), max(floor, float(info.smallest_normal)))))
        spacing = 2.0 ** (exponent - info.nmant)
        far = np.abs(a - e) / spacing
    far = np.where((a == e) | (np.isnan(a) & np.isnan(e)), 0.0, far)
    return np.where(np.isnan(far), np.inf, far)
