"""Values get registers: shared when not alive together, kept over loops they come from outside of."""

from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcAffine, KcEnd, KcLoop
from hlo2tx8.lower.encode.registers import NUM_REGISTERS, LinearForm, ValueNumbering, allocate_registers


def affine(rd: int, *operands: int) -> Record:
    return Record(KcAffine, {"rd": Register(rd), "c": 0} | {f"r{i}": Register(n) for i, n in enumerate(operands, 1)})


def loop(rd: int) -> Record:
    return Record(KcLoop, {"rd": Register(rd), "lo": 0, "hi": 9, "step": 1})


END = Record(KcEnd, {})


def registers(records: list[Record]) -> list[dict[str, int]] | None:
    allocated = allocate_registers(records)
    return allocated and [{k: v.number for k, v in r.fields.items() if isinstance(v, Register)} for r in allocated]


def test_dead_values_give_their_register_back():
    assert registers([affine(10), affine(11, 10), affine(12, 11), affine(13, 12)]) == [
        {"rd": 2},
        {"rd": 3, "r1": 2},
        {"rd": 2, "r1": 3},
        {"rd": 3, "r1": 2},
    ]


def test_the_tile_and_zero_keep_their_registers():
    assert registers([affine(10, 0, 1)]) == [{"rd": 2, "r1": 0, "r2": 1}]


def test_a_value_from_outside_lives_to_the_end_of_the_loop():
    records = [affine(10), loop(11), affine(12, 10), affine(13, 11), END, affine(14)]
    assert registers(records) == [{"rd": 2}, {"rd": 3}, {"rd": 4, "r1": 2}, {"rd": 4, "r1": 3}, {}, {"rd": 3}]


def test_a_value_from_outside_of_two_loops_lives_through_both():
    records = [affine(10), loop(11), loop(12), affine(13, 10), END, affine(14), END, affine(15)]
    got = registers(records)
    assert got is not None
    held = got[0]["rd"]
    assert all(r["rd"] != held for r in got[1:7] if "rd" in r)


def test_too_many_values_at_once():
    most = NUM_REGISTERS - 2
    values = [affine(100 + i) for i in range(most + 1)]
    uses = [affine(1000 + i, 100 + i) for i in range(most + 1)]
    assert registers([*values[:most], *uses[: most - 1]]) is not None
    assert registers([*values, *uses]) is None


def test_forms_are_remembered_per_region_and_the_oldest_forgotten():
    values = ValueNumbering(most_copies=2)
    forms = [LinearForm(i, ((1, 1),)) for i in range(3)]
    numbers = [values.take(form) for form in forms]
    assert values.copy_of(forms[0]) is None
    assert values.copy_of(forms[2]) == numbers[2]
    values.enter()
    assert values.copy_of(forms[1]) == numbers[1]
    inner = values.take(forms[0])
    assert values.copy_of(forms[0]) == inner
    values.leave()
    assert values.copy_of(forms[0]) is None
