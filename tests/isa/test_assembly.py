"""Instructions as xDSL text: print, parse, print again; names as the machine's headers spell them."""

import re

import numpy as np
import pytest
from drawn import by_name, codes, draw
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, IndexType, ModuleOp, TensorType, UnrealizedConversionCastOp, f32
from xdsl.dialects.test import Test
from xdsl.dialects.test import TestOp as SourceOp
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import BufferType, Engine, Instruction, Role, Tx8
from hlo2tx8.device.isa.ct_arith import CtMulVuVLoop
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.fields import SPM_ROLES
from hlo2tx8.link.listing import line

CT_NAME = re.compile(r"CGRATensor_[A-Z][A-Za-z]*Op_(V|bV|T|S)_((V|VV|VS|VuV|bV|bVbV|bVubV|T)_)?[a-z0-9_]+")
TYPES: dict[Role, Attribute] = {
    **{role: BufferType() for role in SPM_ROLES},
    Role.SLOT: TensorType(f32, [8]),
}


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, Test, Tx8):
        ctx.load_dialect(dialect)
    return ctx


def round_trip(operations: list[Operation]) -> None:
    module = ModuleOp(operations)
    module.verify()
    text = str(module)
    parsed = Parser(context(), text).parse_module()
    parsed.verify()
    assert str(parsed) == text
    assert parsed.is_structurally_equivalent(module)


@pytest.mark.parametrize("cls", by_name(), ids=lambda c: c.MNEMONIC)
def test_round_trip(cls: type[Instruction]) -> None:
    """Numbers in all fields, then SSA values in all fields, then in every other one."""
    rng = np.random.default_rng(cls.OPCODE)
    for fmt, fmt2, rounding in codes(cls):
        given = {"fmt": fmt, "fmt2": fmt2, "rnd": rounding, "origin": 'f.py:1 "quoted"'}
        values = draw(cls, rng, fmt, fmt2)
        source = SourceOp(result_types=[TYPES.get(f.role, IndexType()) for f in cls.FIELDS])
        results = dict(zip(values, source.results, strict=True))
        mixed = {name: results[name] if i % 2 else value for i, (name, value) in enumerate(values.items())}
        round_trip([cls.make(**given, **values), source, cls.make(**given, **results), cls.make(**given, **mixed)])


@pytest.mark.parametrize("cls", by_name(), ids=lambda c: c.MNEMONIC)
def test_names(cls: type[Instruction]) -> None:
    assert cls.MNEMONIC.startswith("CGRATensor_" if cls.ENGINE is Engine.CT else f"{cls.ENGINE.name}_")
    assert cls.ENGINE is not Engine.CT or CT_NAME.fullmatch(cls.MNEMONIC)
    assert cls.name == f"tx8.{cls.MNEMONIC}"
    assert (cls.__doc__ or "").splitlines()[0].endswith(".")


def test_listed_names_end_in_their_type() -> None:
    fields = {"dst": 0, "a": 0, "unit": 0, "n": 64, "u": 64, "full_n": 64, "full_u": 64}
    assert line(Record(CtMulVuVLoop, fields, Format.BF16)).startswith("CGRATensor_ArithOp_V_VuV_mul_loop.bf16 ")
    converted = Record(
        CtConvert, {"dst": Register(4), "src": 256, "n": 8, "zp": 0, "seed": 0}, Format.INT8, Format.FP32, Rounding.TOWARD_ZERO
    )
    assert line(converted).split() == ["CGRATensor_ConvertOp_V_V_convert_fp32.int8", "dst=r4", "src=0x100", "n=8"]


def test_text_of_one_instruction() -> None:
    buffer = UnrealizedConversionCastOp.get([], [BufferType()])
    op = CtMulVuVLoop.make(fmt=Format.BF16, dst=buffer.results[0], a=0, unit=256, n=64, u=64, full_n=128, full_u=128)
    text = str(ModuleOp([buffer, op])).splitlines()[2].strip()
    assert text == (
        "tx8.CGRATensor_ArithOp_V_VuV_mul_loop dst(%0 : !tx8.buffer) a(0) unit(256) n(64) u(64) full_n(128) full_u(128) bf16"
    )


def test_make_wants_exactly_the_fields() -> None:
    with pytest.raises(TypeError, match="field unit is missing"):
        CtMulVuVLoop.make(fmt=Format.BF16, dst=0, a=0)
    with pytest.raises(TypeError, match="has no field b"):
        CtConvert.make(fmt=Format.INT8, fmt2=Format.FP32, dst=0, src=0, n=0, b=0)
