"""References of elementwise ops against XLA:CPU on edge values, within the declared ulp."""

from collections.abc import Iterator

import numpy as np
import pytest
from xla_module import Case, run_cases, significant, ulps

from hlo2tx8.hlo import Kind, OpSpec, Sample, TensorLike, all_specs
from hlo2tx8.hlo.edge_values import edge_values
from hlo2tx8.hlo.ops.forms import DTYPES
from hlo2tx8.hlo.types import bit_width, dtype, is_float, is_integer
from hlo2tx8.tools.xla_cpu import CpuServer

SLOW = pytest.mark.slow
GROUPS = [
    pytest.param(("float32", "bfloat16"), id="floats"),
    pytest.param(("int8", "uint32", "bool"), id="integers"),
    pytest.param(("float16", "float64"), id="more_floats", marks=SLOW),
    pytest.param(("uint8", "int16", "uint16", "int32", "int64", "uint64"), id="more_integers", marks=SLOW),
    pytest.param(("float8_e4m3fn", "float8_e5m2"), id="small_floats", marks=SLOW),
    pytest.param(("int4", "uint4", "int2", "uint2"), id="sub_byte", marks=SLOW),
    pytest.param(("complex64",), id="complex", marks=SLOW),
]
COMMON = ("float32", "bfloat16", "float16", "int32", "int8", "uint8", "bool")
FEW = ("float32", "uint8", "int16")
DEVIATIONS = {
    ("stablehlo.popcnt", "int4"): "XLA:CPU counts the sign extension",
    ("stablehlo.popcnt", "int2"): "XLA:CPU counts the sign extension",
    ("stablehlo.maximum", "complex64"): "XLA:CPU compares real parts only",
    ("stablehlo.minimum", "complex64"): "XLA:CPU compares real parts only",
    ("stablehlo.cbrt", "complex64"): "XLA:CPU has none",
}
APART = ("stablehlo.convert", "stablehlo.bitcast_convert", "chlo.polygamma", "chlo.zeta", "chlo.constant_like")


@pytest.fixture(scope="module")
def xla() -> Iterator[CpuServer]:
    """XLA:CPU as it is."""
    server = CpuServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def exact_xla() -> Iterator[CpuServer]:
    """XLA:CPU without LLVM's optimisations, for what has one result only: it is the same in every bit, and compiled sooner."""
    server = CpuServer("--xla_backend_optimization_level=0")
    yield server
    server.close()


def operands_for(spec: OpSpec, sample: Sample, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """All pairs of edge values; for a third operand the first again, for a pred an alternation."""
    if len(sample.operands) == 1:
        return (values,)
    x, y = (np.ascontiguousarray(grid).reshape(-1) for grid in np.meshgrid(values, values))
    if spec.name == "stablehlo.power" and is_integer(x.dtype):
        # XLA:CPU looks at the low six bits of the exponent only.
        y = np.where(np.abs(y.astype(np.float64)) < min(32, 1 << (bit_width(x.dtype) - 1)), y, np.ones_like(y))
    if len(sample.operands) == 2:
        return (x, y)
    first = np.arange(x.size) % 2 == 0 if spec.name == "stablehlo.select" else x
    return (first, y, x)


def cases_of(names: tuple[str, ...], prefix: str) -> Iterator[Case]:
    for name in names:
        kind = dtype(name)
        pool: dict[int, tuple[np.ndarray, ...]] = {}
        for spec in all_specs():
            if spec.kind is not Kind.ELEMENTWISE or not spec.name.startswith(prefix) or spec.name in APART:
                continue
            if "broadcast" in spec.name or (spec.name, name) in DEVIATIONS:
                continue
            seen: list[object] = []
            for sample in spec.samples():
                key = dict(sample.attributes)
                if sample.operands[-1].dtype != kind or key in seen:
                    continue
                seen.append(key)
                special = spec.name in ("stablehlo.select", "stablehlo.power") or len(sample.operands) not in pool
                arrays = operands_for(spec, sample, edge_values(kind)) if special else pool[len(sample.operands)]
                if spec.name not in ("stablehlo.select", "stablehlo.power"):
                    pool[len(sample.operands)] = arrays
                tensors = tuple(TensorLike(a.shape, a.dtype) for a in arrays)
                result = TensorLike(arrays[-1].shape, sample.results[0].dtype)
                yield Case(spec, Sample(tensors, (result,), sample.attributes), arrays)


def check(cases: list[Case], server: CpuServer, *, double_rounding: bool = False) -> None:
    """Each result within its spec's bound where nothing is subnormal."""
    failures: list[str] = []
    for case, actual in zip(cases, run_cases(cases, server), strict=True):
        spec, expected = case.spec, case.expected
        assert expected.dtype == actual.dtype
        bound = spec.complex_ulp if "c" in (expected.dtype.kind, case.arrays[0].dtype.kind) else spec.ulp
        if spec.name == "stablehlo.convert" and not double_rounding:
            bound = 0
        keep = significant(expected) & significant(actual)
        if case.arrays[0].size == expected.size:
            for array in case.arrays:
                keep &= significant(array)
        error = np.where(keep, ulps(actual, expected, spec.ulp_floor), 0)
        if bound == 0 and expected.dtype.kind != "c" and is_float(expected.dtype):
            negative = np.signbit(expected.astype(np.float64)) != np.signbit(actual.astype(np.float64))
            error = np.where(keep & negative & (expected == 0), np.inf, error)
        if error.size and error.max() > bound:
            i = int(error.argmax())
            got = f"{actual.flat[i]}, reference {expected.flat[i]}, {error.flat[i]} > {bound} ulp"
            failures.append(f"{case}: {[a.flat[i] for a in case.arrays if a.size == error.size]} gives {got}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("names", GROUPS)
def test_stablehlo_agrees_with_xla(names: tuple[str, ...], xla: CpuServer, exact_xla: CpuServer):
    are_whole = all(is_integer(dtype(name)) or name == "bool" for name in names)
    check(list(cases_of(names, "stablehlo.")), exact_xla if are_whole else xla)


@pytest.mark.parametrize("names", [("float32", "bfloat16"), pytest.param(("float16", "float64", "complex64"), marks=SLOW)])
def test_chlo_agrees_with_xla(names: tuple[str, ...], xla: CpuServer):
    check(list(cases_of(names, "chlo.")), xla)


def test_polygamma_and_zeta_agree_with_xla(xla: CpuServer):
    specs = {spec.name: spec for spec in all_specs()}
    orders = {"chlo.polygamma": (0, 1, 2, 3, 4, -1, 1.5), "chlo.zeta": (1, 1.5, 2, 3, 6.5, 0.5, -2)}
    points = (0.25, 0.5, 1, 1.5, 2, 7, 20.5, 100, 0, -1)
    cases: list[Case] = []
    for name, first in orders.items():
        grid = np.meshgrid(np.array(first, np.float64), np.array(points, np.float64))
        arrays = tuple(np.ascontiguousarray(g).reshape(-1) for g in grid)
        tensor = TensorLike(arrays[0].shape, np.dtype(np.float64))
        cases.append(Case(specs[name], Sample((tensor, tensor), (tensor,)), arrays))
    check(cases, xla)


def _converts(names: tuple[str, ...], but: tuple[str, ...]) -> Iterator[Case]:
    (spec,) = [spec for spec in all_specs() if spec.name == "stablehlo.convert"]
    pool: dict[str, np.ndarray] = {}
    for sample in spec.samples():
        kind, to = sample.operands[0].dtype, sample.results[0].dtype
        if {kind.name, to.name} <= {*names} and not {kind.name, to.name} <= {*but}:
            array = pool.setdefault(kind.name, edge_values(kind))
            tensors = TensorLike(array.shape, kind), TensorLike(array.shape, to)
            yield Case(spec, Sample((tensors[0],), (tensors[1],)), (array,))


@pytest.mark.parametrize(("names", "but"), [(COMMON, ()), pytest.param(DTYPES, COMMON, marks=SLOW)], ids=["common", "others"])
def test_convert_agrees_with_xla(names: tuple[str, ...], but: tuple[str, ...], exact_xla: CpuServer):
    """XLA:CPU rounds 64 and 32-bit numbers to 16 and 8 bits in two steps; everything else is equal."""
    cases = list(_converts(names, but))
    narrow_floats = {"bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"}

    def in_two_steps(case: Case) -> bool:
        wide = case.arrays[0].dtype.itemsize >= 4 and case.arrays[0].dtype != np.float32
        return wide and case.sample.results[0].dtype.name in narrow_floats

    check([case for case in cases if not in_two_steps(case)], exact_xla)
    check([case for case in cases if in_two_steps(case)], exact_xla, double_rounding=True)


@pytest.mark.parametrize(("names", "but"), [(FEW, ()), pytest.param(DTYPES, FEW, marks=SLOW)], ids=["common", "others"])
def test_bitcast_convert_agrees_with_xla(names: tuple[str, ...], but: tuple[str, ...], exact_xla: CpuServer):
    (spec,) = [spec for spec in all_specs() if spec.name == "stablehlo.bitcast_convert"]
    rng = np.random.default_rng(0)
    cases: list[Case] = []
    for sample in spec.samples():
        (operand,) = sample.operands
        kinds = {operand.dtype.name, sample.results[0].dtype.name}
        if not kinds <= {*names} or kinds <= {*but}:
            continue
        if bit_width(operand.dtype) < 8:
            array = edge_values(operand.dtype)[rng.integers(0, 3, operand.shape)]
        else:
            octets = rng.integers(0, 100, (*operand.shape, operand.dtype.itemsize), np.uint8)
            array = octets.view(operand.dtype).reshape(operand.shape)
        cases.append(Case(spec, sample, (array,)))
    for case, actual in zip(cases, run_cases(cases, exact_xla), strict=True):
        expected = case.expected
        assert actual.dtype == expected.dtype
        assert np.asarray(actual, order="C").tobytes() == np.asarray(expected, order="C").tobytes(), str(case)
