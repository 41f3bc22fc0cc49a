"""docs/op_engines.json says what the compiler does, shown on a few ops; every public op of the table is in it."""

import pytest

from hlo2tx8.dev.op_engines import COLUMNS, REFUSED, cells, engines, found, stored
from hlo2tx8.hlo import all_specs, spec_of
from hlo2tx8.vendor.op_probes import DTYPES, OpProbe, has_probes, probes

SHOWN = {
    "stablehlo.add": {"float32": "CT", "float64": "KC", "int32": "KC"},
    "stablehlo.tanh": {"bfloat16": "CT", "float64": "KC"},
    "stablehlo.reshape": {"int8": "DMA"},
    "stablehlo.transpose": {"uint16": "TDMA"},
}


@pytest.mark.parametrize("op", SHOWN)
def test_the_file_is_what_the_compiler_does(op: str):
    names = {probe.dtype: probe for probe in probes(spec_of(op))}
    for name, wanted in SHOWN[op].items():
        assert engines(names[name]) == stored()[op][name] == wanted


def test_every_op_with_probes_is_in_the_file_with_all_its_dtypes():
    table = stored()
    for spec in all_specs():
        if has_probes(spec):
            assert list(table[spec.name]) == [name for name in DTYPES if name in {p.dtype for p in probes(spec)}], spec.name
            assert all(table[spec.name].values())
    assert {name for names in COLUMNS for name in names} == set(DTYPES)


def test_no_refusal_without_a_reason():
    for op, of in stored().items():
        refused = [name for name, value in of.items() if value.startswith(REFUSED)]
        assert all(of[name].removeprefix(REFUSED).strip() for name in refused), op
        *row, reasons = cells(of)
        assert len(row) == len(COLUMNS)
        assert bool(reasons) == bool(refused)


def test_what_is_refused_is_told_with_its_reason():
    text = "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
    text += "%r = stablehlo.custom_call @nobody(%a) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %r : tensor<4xf32>\n}\n"
    assert engines(OpProbe("stablehlo.custom_call", "float32", text)) == f"{REFUSED}custom call of target nobody is not supported"
    assert found([]) == {}
