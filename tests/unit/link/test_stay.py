"""What placed kernels leave to each other in scratchpads: exact runs, who fetches from whom, and results in strict mode."""

from types import SimpleNamespace

import numpy as np
import pytest

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.dte import DteGather
from hlo2tx8.device.isa.encoding import Record, Register, decode_records
from hlo2tx8.device.isa.kc_control import KcAffine, KcEnd, KcLoadScalar, KcLoop
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Program
from hlo2tx8.link import program
from hlo2tx8.link.runs import runs_of
from hlo2tx8.link.stay import IMAGE
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source

BOX = {"count": 8, "s1": 32, "n1": 2, "s2": 0, "n2": 1, "s3": 0, "n3": 1}
LOOP = Record(KcLoop, {"rd": 2, "lo": 0, "hi": 3, "step": 2})
AT = Record(KcAffine, {"rd": 3, "c": 4, "r1": Register(2), "k1": 100, "r2": Register(1), "k2": 1000})
STORE = Record(Wdma, {"slot": 5, "offset": Register(3), "src": 0x10000, **BOX}, Format.BF16)


def test_runs_are_those_of_each_turn_and_each_level():
    found = runs_of([LOOP, AT, STORE, Record(KcEnd)], 5, tile=2)
    assert found is not None
    assert found.tolist() == [[2004, 2020], [2068, 2084], [2204, 2220], [2268, 2284]]
    assert runs_of([LOOP, AT, STORE, Record(KcEnd)], 4, tile=2) is not None


def test_what_is_loaded_is_not_known():
    loaded = Record(KcLoadScalar, {"rd": 3, "address": 0x10000}, Format.INT32)
    assert runs_of([loaded, STORE], 5, tile=0) is None


def chain(shape: tuple[int, int], tiles: list[str], inputs: int) -> str:
    """Functions in a row, each on tiles of its own, for some inputs; one of three adds rows to those at the other end."""
    t = f"f32[{shape[0]},{shape[1]}]"
    bodies = [
        f"y = {t} negate(x)\n  ROOT z = {t} add(x, y)",
        f"ROOT z = {t} abs(x)",
        f"y = {t} reverse(x), dimensions={{0}}\n  ROOT z = {t} add(x, y)",
    ]
    lines = ["HloModule chain"]
    lines += [f"f{n} {{\n  x = {t} parameter(0)\n  {bodies[(n + 1) % 3]}\n}}" for n in range(len(tiles))]
    lines += ["ENTRY main {", *(f"  v{i}.0 = {t} parameter({i})" for i in range(inputs))]
    for i in range(inputs):
        for n, at in enumerate(tiles):
            lines.append(f'  v{i}.{n + 1} = {t} call(v{i}.{n}), to_apply=f{n}, frontend_attributes={{tiles="{at}"}}')
    last = ", ".join(f"v{i}.{len(tiles)}" for i in range(inputs))
    return "\n".join([*lines, f"  ROOT r = ({', '.join([t] * inputs)}) tuple({last})", "}"])


def sends(program: Program) -> bool:
    return any(record.kind is DteGather for record in decode_records(program.code, program.origins))


@pytest.mark.parametrize(
    ("shape", "tiles"),
    [
        ((33, 70), ["0,0,1,1", "0,1,1,1", "3,3,1,1"]),
        ((64, 128), ["0,0,4,1", "0,1,4,1", "0,2,4,1"]),
        ((40, 96), ["0,0,1,1", "1,0,1,4", "2,0,1,4"]),
    ],
)
def test_results_are_those_of_the_ddr(shape: tuple[int, int], tiles: list[str], monkeypatch: pytest.MonkeyPatch):
    """In strict mode, which knows of races and of what was never written; whatever it costs."""
    source = chain(shape, tiles, 3)
    inputs = [np.random.default_rng(n).standard_normal(shape, np.float32) for n in range(3)]
    expected = [np.asarray(array) for array in compile_source(source, Options()).execute(*inputs)]
    monkeypatch.setattr(program, "model", lambda made, chip: SimpleNamespace(cycles=0 if sends(made) else 1))
    staying = compile_source(source, Options(mode="strict"))
    assert sends(staying.program)
    assert {buffer.name.startswith(IMAGE) for buffer in staying.program.buffers} == {False, True}
    records = decode_records(staying.program.code, staying.program.origins)
    assert any(record.kind is Rdma for record in records)
    for found, wanted in zip(staying.execute(*inputs), expected, strict=True):
        assert np.array_equal(found, wanted)
