"""The native core equals the definition bit for bit: every vector instruction, every format, edge operands, awkward addresses."""

import numpy as np
import pytest
from native_cases import REGION_BYTES, edges, make_fields, make_image, roundings, run_both, vector_instructions

from hlo2tx8.device import native
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ct_arith import CtRsqrt
from hlo2tx8.device.isa.encoding import Record

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")
CASES = list(vector_instructions())
CLASSES = sorted({cls for cls, _, _ in CASES}, key=lambda c: c.OPCODE)


def _describe(records: list[Record], wrong: np.ndarray) -> str:
    record = records[0]
    return (
        f"{record.kind.MNEMONIC} {record.fmt.name} from {record.fmt2.name} {record.rounding.name}: {wrong.size} bytes, {wrong[:4]}"
    )


def _check(records: list[Record], image: np.ndarray) -> None:
    expected, actual = run_both(records, image)
    wrong = np.nonzero(expected != actual)[0]
    assert not wrong.size, _describe(records, wrong)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_equals_definition(cls: type[Instruction]) -> None:
    for kind, fmt, source in CASES:
        if kind is not cls:
            continue
        image, n = make_image(cls, fmt, source)
        for rounding in roundings(cls, fmt, source):
            _check([Record(cls, make_fields(cls, n, {}), fmt, source, rounding)], image)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("shift", [0, 1, 3, 64])
def test_sources_are_read_before_the_result_is_written(cls: type[Instruction], shift: int) -> None:
    """dst on a source, and `shift` bytes behind it: in place, overlapping, not aligned."""
    names = [f.name for f in cls.FIELDS]
    source_name = next((s for s in ("src", "a") if s in names), None)
    choices = [(fmt, source) for kind, fmt, source in CASES if kind is cls]
    fmt, source = next((c for c in choices if c == (Format.INT16, Format.FP32 if cls.FORMATS2 else Format.INT16)), choices[0])
    image, n = make_image(cls, fmt, source)
    if source_name is None:
        pytest.skip("no source")
    addresses = {source_name: REGION_BYTES, "dst": REGION_BYTES + shift}
    _check([Record(cls, make_fields(cls, n, addresses), fmt, source)], image)


def test_rsqrt_of_every_mantissa() -> None:
    """Those of [1, 4): all others are these times powers of 4. Here and there one that is none of the core's quick ones."""
    ones, fours = (np.float32(x).view(np.uint32) for x in (1, 4))
    for bits in np.split(np.arange(ones, fours, dtype=np.uint32), 64):
        bits[:: bits.size // 5] = edges(Format.FP32)[: bits[:: bits.size // 5].size]
        _check([Record(CtRsqrt, {"src": 0, "dst": 0, "n": bits.size - 5}, Format.FP32)], bits.view(np.uint8))


def test_empty_vectors() -> None:
    for cls, fmt, source in CASES:
        if any(f.name == "full_n" or (f.name == "n" and f.least) for f in cls.FIELDS):
            continue
        image, _ = make_image(cls, fmt, source)
        _check([Record(cls, make_fields(cls, 0, {}), fmt, source)], image[:64].repeat(1024))
