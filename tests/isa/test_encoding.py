"""Records to words and back, for every instruction; what is no program is refused with its place."""

import numpy as np
import pytest
from drawn import by_name, codes, record

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import BY_OPCODE, INSTRUCTIONS, Instruction, Role
from hlo2tx8.device.isa.base import NUM_OPERAND_WORDS
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.ct_auxiliary import CtCount
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.encoding import (
    HEADER_WORDS,
    MAX_DEPTH,
    RECORD_WORDS,
    EncodingError,
    Record,
    Register,
    decode_records,
    encode_records,
)
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcCall, KcEnd, KcEndIf, KcExit, KcFunction, KcIf, KcLoop, KcReturn

BLOCKS = (KcLoop, KcIf, KcEnd, KcEndIf, KcExit, KcFunction, KcReturn, KcCall)
LOOP = Record(KcLoop, {"rd": Register(2), "lo": 0, "hi": 3, "step": 1})
IF = Record(KcIf, {"value": Register(2)})
RETURN = Record(KcReturn)


def function(number: int) -> Record:
    return Record(KcFunction, {"number": number})


def call(number: int) -> Record:
    return Record(KcCall, {"number": number})


TWO = [function(0), RETURN, function(1)]


@pytest.mark.parametrize("cls", [c for c in by_name() if c not in BLOCKS], ids=lambda c: c.MNEMONIC)
def test_round_trip(cls: type[Instruction]) -> None:
    rng = np.random.default_rng(cls.OPCODE)
    records = [record(cls, rng) for _ in range(12)]
    words, origins = encode_records(records)
    assert words.shape == (12, RECORD_WORDS)
    assert words.dtype == np.uint64
    assert decode_records(words, origins) == records
    again, origins_again = encode_records(decode_records(words, origins))
    assert np.array_equal(again, words)
    assert origins_again == origins


@pytest.mark.parametrize("cls", by_name(), ids=lambda c: c.MNEMONIC)
def test_every_code_decodes_and_others_do_not(cls: type[Instruction]) -> None:
    functions = {KcFunction: TWO[:2], KcReturn: TWO[:1], KcCall: [*TWO, RETURN]}
    begin = (functions | {KcEnd: [LOOP], KcEndIf: [IF], KcExit: [LOOP]}).get(cls, [])
    end = {KcLoop: [Record(KcEnd)], KcIf: [Record(KcEndIf)], KcExit: [Record(KcEnd)], KcFunction: [RETURN]}.get(cls, [])
    fields = {f.name: 1 for f in cls.FIELDS}
    taken = set(codes(cls))
    for fmt in Format:
        for fmt2 in Format if cls.FORMATS2 else (Format.INT8,):
            for rounding in Rounding:
                words, origins = encode_records([*begin, Record(cls, fields, fmt, fmt2, rounding), *end])
                if (fmt, fmt2, rounding) in taken or (not cls.FORMATS and rounding is Rounding.NEAREST_EVEN):
                    assert decode_records(words, origins)[len(begin)].fmt is fmt
                else:
                    with pytest.raises(EncodingError, match=f"record {len(begin)}: {cls.MNEMONIC} does not take"):
                        decode_records(words, origins)


def test_words_of_one_record() -> None:
    """Opcode, formats and engine in word 0, the registers of word 1, operands from word 4 in the order of the fields."""
    fields = {"dst": Register(5), "a": 0x1000, "b": -1, "n": 64}
    words, origins = encode_records([Record(CtAddVV, fields, Format.BF16, origin="f.py:1")])
    assert words[0, :8].tolist() == [16 | 3 << 16, 0b0001, 0, 0, 5, 0x1000, (1 << 64) - 1, 64]
    assert not words[0, 8:].any()
    assert origins == ("f.py:1",)
    converted, _ = encode_records(
        [Record(CtConvert, {"dst": 0, "src": 0, "n": 1}, Format.INT32, Format.FP32, Rounding.TOWARD_NEGATIVE)]
    )
    assert int(converted[0, 0]) == 84 | 4 << 16 | 5 << 24 | 3 << 32


def test_origins_are_shared() -> None:
    records = [Record(KcBarrier, origin=origin) for origin in ("a", "b", "a", "")]
    words, origins = encode_records(records)
    assert origins == ("a", "b", "")
    assert words[:, 2].tolist() == [0, 1, 0, 2]


def test_blocks_know_their_partners() -> None:
    words, _ = encode_records([LOOP, IF, Record(KcBarrier), Record(KcEndIf), LOOP, Record(KcEnd), Record(KcEnd)])
    assert words[:, 3].tolist() == [6, 3, 0, 1, 5, 4, 0]
    words, _ = encode_records([*TWO, call(0), RETURN, LOOP, call(1), Record(KcEnd)])
    assert words[:, 3].tolist() == [1, 0, 4, 0, 2, 7, 2, 5]


def deep_calls(num: int) -> list[Record]:
    """Each function calls the one before, the last one in a loop."""
    records = [function(0), RETURN]
    for number in range(1, num):
        records += [function(number), call(number - 1), RETURN]
    return [*records, LOOP, call(num - 1), Record(KcEnd)]


def test_calls_may_be_as_deep_as_blocks() -> None:
    encode_records(deep_calls(MAX_DEPTH - 1))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([LOOP], "record 0: a block has no end"),
        ([IF, LOOP, Record(KcEnd)], "record 0: a block has no end"),
        ([Record(KcEnd)], "record 0: KC_end without a beginning"),
        ([LOOP, Record(KcEndIf)], "record 1: KC_endif without a beginning"),
        ([IF, LOOP, Record(KcEndIf), Record(KcEnd)], "record 2: KC_endif without a beginning"),
        ([Record(KcExit, {"value": 1})], "record 0: KC_exit does not stand in a loop"),
        ([LOOP, IF, Record(KcExit, {"value": 1}), Record(KcEndIf), Record(KcEnd)], "record 2: KC_exit does not stand in a loop"),
        ([IF, function(0), RETURN, Record(KcEndIf)], "record 1: KC_function 0 in a block or out of order"),
        ([*TWO, RETURN, function(1), RETURN], "record 4: KC_function 1 in a block or out of order"),
        ([*TWO, call(1), RETURN], "record 3: KC_call of a function that does not end above"),
        ([Record(KcCall, {"number": Register(3)})], "record 0: KC_call of a function that does not end above"),
        ([RETURN], "record 0: KC_return without a beginning"),
        ([function(0), LOOP, RETURN], "record 2: KC_return without a beginning"),
        (deep_calls(MAX_DEPTH), f"more than {MAX_DEPTH} blocks inside each other"),
        ([LOOP] * (MAX_DEPTH + 1) + [Record(KcEnd)] * (MAX_DEPTH + 1), f"record {MAX_DEPTH}: more than {MAX_DEPTH} blocks"),
    ],
)
def test_blocks_must_nest(records: list[Record], message: str) -> None:
    with pytest.raises(EncodingError, match=message):
        encode_records(records)


def test_damaged_blocks_are_refused_when_decoded() -> None:
    words, origins = encode_records([LOOP, Record(KcEnd)])
    for kept in ([0], [1], [1, 0]):
        with pytest.raises(EncodingError, match="record 0: "):
            decode_records(words[kept], origins)


def test_what_is_no_record() -> None:
    words, _ = encode_records([Record(CtAddVV, {"dst": 0, "a": 0, "b": 0, "n": Register(3)}, Format.FP32)])
    illegal = next(code for code in range(1 << 16) if code not in BY_OPCODE)
    cases = {
        f"illegal opcode {illegal}": (0, illegal),
        "17 is not a valid Format": (0, CtAddVV.OPCODE | 17 << 16),
        "5 is not a valid Rounding": (0, CtAddVV.OPCODE | Format.FP32 << 16 | 5 << 32),
        "does not take INT8": (0, CtAddVV.OPCODE),
        "does not take FP32 rounded TOWARD_ZERO": (0, CtCount.OPCODE | Format.FP32 << 16 | 1 << 32),
        "no register 64": (HEADER_WORDS + 3, 64),
        "no register -1": (HEADER_WORDS + 3, (1 << 64) - 1),
    }
    for message, (word, value) in cases.items():
        damaged = words.copy()
        damaged[0, word] = value
        with pytest.raises(EncodingError, match=f"record 0: .*{message}"):
            decode_records(damaged, ())
    affine, _ = encode_records([Record(KcAffine, {"rd": 64, "c": 0})])
    with pytest.raises(EncodingError, match="no register 64"):
        decode_records(affine, ())
    for shaped in (words[0], words[:, :-1], words.astype(np.int64)):
        with pytest.raises(EncodingError, match="a program is uint64"):
            decode_records(shaped, ())


def test_missing_fields_are_named() -> None:
    with pytest.raises(EncodingError, match="CGRATensor_ArithOp_V_VV_add: field n is missing"):
        encode_records([Record(CtAddVV, {"dst": 0, "a": 0, "b": 0}, Format.FP32)])


def test_fields_fit_the_record() -> None:
    assert len(INSTRUCTIONS) == len(BY_OPCODE)
    for cls in INSTRUCTIONS:
        names = [f.name for f in cls.FIELDS]
        assert len(names) == len(set(names)) <= NUM_OPERAND_WORDS == RECORD_WORDS - HEADER_WORDS
        assert 0 <= cls.OPCODE < 1 << 16
        for f in cls.FIELDS:
            assert f.default is None or f.role in (Role.STRIDE, Role.COUNT, Role.IMMEDIATE)
