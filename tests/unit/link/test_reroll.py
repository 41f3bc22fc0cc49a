"""Equal runs of launches become a loop that does the same, whatever the order in which their slots come."""

from collections.abc import Sequence

import numpy as np
import pytest

from hlo2tx8.device import interpret
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.encoding import NUM_REGISTERS, Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KcAffine, KcCall, KcEnd, KcExit, KcFunction, KcLoop, KcReturn, KcWait
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Buffer, BufferUse, Launch, Program, Slot, SlotKind
from hlo2tx8.link.assemble import Assembled
from hlo2tx8.link.reroll import reroll
from hlo2tx8.link.slot_chains import SlotChains

CHIP = load_chip()
WAIT = Record(KcWait, {"engines": 63})
N, FILL = 4, 90
"""Elements of a tensor, and additions of a launch: short runs stay as they are."""


def launch(x: int, w: int, y: int, offset: int = 0) -> list[Record]:
    """y = x + w + w + ..., where w begins at a place in its slot."""
    loads = [
        Record(Rdma, {"dst": 0, "slot": x, "offset": 0, "count": N}, Format.FP32),
        Record(Rdma, {"dst": 256, "slot": w, "offset": offset, "count": N}, Format.FP32),
        WAIT,
    ]
    sums = [
        Record(CtAddVV, {"dst": 512 * (k % 2 + 1), "a": 512 * (k % 2) if k else 0, "b": 256, "n": N}, Format.FP32)
        for k in range(FILL)
    ]
    return [*loads, *sums, Record(Wdma, {"src": 512, "slot": y, "offset": 0, "count": N}, Format.FP32), WAIT]


def program_of(launches: Sequence[Sequence[Record]]) -> Assembled:
    records = [record for own in launches for record in own]
    firsts = np.cumsum([0, *map(len, launches)]).tolist()
    of = [number for number, own in enumerate(launches) for _ in own]
    uses = [BufferUse(n, 0, of[n]) for n, record in enumerate(records) if record.kind is Rdma]
    buffers = [Buffer("x", 0, 16, 2, 256, first, first + 2) for first in firsts[:-1]]
    return Assembled(1, records, buffers, uses, [Launch("add", f"turn {n}", first) for n, first in enumerate(firsts[:-1])])


def run(made: Assembled, slots: Sequence[Slot]) -> list[np.ndarray]:
    """The slots' contents in the order of their indices."""
    code, origins = encode_records(made.records)
    data = {slot.index: np.arange(slot.num_elements, dtype=np.float32) + 10 * slot.index for slot in slots}
    interpret.run(Program(code, tuple(slots), (), origins, CHIP.spm_bytes), [data[s.index].view(np.uint8) for s in slots], CHIP)
    return [data[index] for index in sorted(data)]


def slots_of(count: int, size: int = N) -> tuple[Slot, ...]:
    return tuple(Slot(SlotKind.OUTPUT, n, "float32", (size,), 4 * size) for n in range(count))


def check(launches: Sequence[Sequence[Record]], slots: Sequence[Slot], num_loops: int) -> Assembled:
    flat = program_of(launches)
    made, order = reroll(flat, slots)
    assert sum(record.kind is KcLoop for record in made.records) == num_loops
    for a, b in zip(run(flat, slots), run(made, order), strict=True):
        np.testing.assert_array_equal(a, b)
    return made


WEIGHTS = {
    "in order": [1, 2, 3, 4, 5],
    "backward": [5, 4, 3, 2, 1],
    "by name": [1, 4, 5, 2, 3],
    "every second": [1, 3, 5, 7, 9],
}


@pytest.mark.parametrize("order", WEIGHTS)
def test_slots_in_any_order(order: str):
    launches = [launch(10, w, 10) for w in WEIGHTS[order]]
    made = check(launches, slots_of(11), 1)
    assert len(made.records) == len(launches[0]) + 3 and [la.origin for la in made.launches] == ["turn 0"]


def test_results_of_each_run_stay():
    made = check([launch(n, 6, n + 1) for n in range(5)], slots_of(7), 1)
    assert len(made.records) == FILL + 9


def test_places_in_a_slot():
    made = check([launch(0, 1, 0, 16 * n) for n in range(6)], slots_of(2, 6 * N), 1)
    assert len(made.records) == FILL + 8


def test_values_that_change_places_take_two_launches():
    made = check([launch(n % 2, 2 + n, (n + 1) % 2) for n in range(10)], slots_of(12), 1)
    assert len(made.records) < 3 * len(launch(0, 0, 0))


def test_what_stands_around_equal_runs_stays():
    head, tail = [*launch(0, 1, 2)[:-2], WAIT], [WAIT, *launch(2, 0, 1)]
    made = check([head, *(launch(2, 3 + n, 2) for n in range(4)), tail], slots_of(8), 1)
    assert [la.origin for la in made.launches] == ["turn 0", "turn 1", "turn 5"]
    assert made.records[: len(head)] == head and made.records[-len(tail) :] == tail


def test_two_stretches_of_runs_have_a_loop_each():
    one, other = ([launch(0, 2 + n, 0) for n in range(4)], [[*launch(1, 5 - n, 1)[:-2], WAIT, WAIT, WAIT] for n in range(4)])
    check([*one, *other], slots_of(6), 2)


@pytest.mark.parametrize("count", [1, 2])
def test_few_runs_stay(count: int):
    check([launch(0, 1 + n, 0) for n in range(count)], slots_of(4), 0)


def test_slots_that_grow_by_no_constant_stay():
    """Weights are read in an order that no numbering makes even."""
    check([launch(5, w, 5) for w in (0, 1, 1, 0, 2, 0)], slots_of(6), 0)


def test_too_few_registers():
    rest = [Record(KcAffine, {"rd": n, "c": 0}) for n in range(2, NUM_REGISTERS - 1)]
    check([rest, *(launch(0, 1 + n, 0) for n in range(4))], slots_of(5), 0)
    check([rest[:-1], *(launch(0, 1 + n, 0) for n in range(4))], slots_of(5), 1)
    check([rest[:-1], *(launch(0, 1 + n, 5 + n) for n in range(4))], slots_of(9), 0)


def test_more_numbers_than_registers_take_turns():
    """Two registers are left for the weights of three launches."""
    rest = [Record(KcAffine, {"rd": n, "c": 0}) for n in range(2, NUM_REGISTERS - 2)]
    launches = [own for n in range(3) for own in (launch(0, 1 + n, 0), launch(0, 4 + n, 0), launch(0, 7 + n, 0)[:-1])]
    made = check([rest, *launches], slots_of(10), 1)
    assert sum(r.kind is KcAffine and isinstance(r.fields["rd"], Register) for r in made.records) == 3


def test_inside_of_a_loop_and_of_a_branch_of_it():
    begin, end = Record(KcLoop, {"rd": 2, "lo": 0, "hi": 2, "step": 1}), Record(KcEnd)
    launches = [launch(0, 1 + n, 0) for n in range(4)]
    flat = program_of(launches)
    flat.records = [begin, *flat.records, end]
    flat.launches = [Launch(la.name, la.origin, la.first + 1) for la in flat.launches]
    flat.uses, flat.buffers = [], []
    made, order = reroll(flat, slots_of(5))
    assert [r.kind for r in made.records].count(KcLoop) == 2
    assert [a.tolist() for a in run(made, order)] == [a.tolist() for a in run(flat, slots_of(5))]


def test_an_exit_stays_in_its_loop():
    begin, end = Record(KcLoop, {"rd": 2, "lo": 0, "hi": 2, "step": 1}), Record(KcEnd)
    flat = program_of([[*launch(0, 1 + n, 0), Record(KcExit, {"value": 1})] for n in range(4)])
    flat.records = [begin, *flat.records, end]
    flat.launches = [Launch(la.name, la.origin, la.first + 1) for la in flat.launches]
    flat.uses, flat.buffers = [], []
    made, _ = reroll(flat, slots_of(5))
    assert made is flat


def test_equal_runs_inside_of_equal_runs():
    """Each run begins with a loop around equal launches: one of the two becomes a loop."""
    begin, end = Record(KcLoop, {"rd": 2, "lo": 0, "hi": 2, "step": 1}), Record(KcEnd)
    records, firsts = list[Record](), list[int]()
    for _ in range(4):
        firsts.append(len(records))
        records += [*launch(0, 1, 0), begin]
        for n in range(4):
            firsts.append(len(records))
            records += launch(0, 1 + n, 0)
        records.append(end)
    flat = Assembled(1, records, [], [], [Launch("add", "", first) for first in firsts])
    made, order = reroll(flat, slots_of(5))
    assert len(made.records) < len(records) / 3
    assert [a.tolist() for a in run(made, order)] == [a.tolist() for a in run(flat, slots_of(5))]


def test_a_loop_around_calls_of_a_function_with_a_loop():
    """They have registers of their own: weights are read behind calls too, and some after the loop that is called."""
    own = [launch(0, 1 + n, 0) for n in range(4)]
    function = [Record(KcFunction, {"number": 0}), *(record for each in own for record in each), Record(KcReturn)]
    firsts = [1 + n * len(own[0]) for n in range(4)]
    records = function
    for n in range(4):
        for w, more in ((5 + n, []), (9 + 2 * n, [WAIT])):
            firsts.append(len(records))
            records = [*records, *launch(0, w, 0), *more, Record(KcCall, {"number": 0})]
    flat = Assembled(1, records, [], [], [Launch("add", "", first) for first in firsts])
    made, order = reroll(flat, slots_of(17))
    assert len(made.records) < len(records) / 3
    assert [a.tolist() for a in run(made, order)] == [a.tolist() for a in run(flat, slots_of(17))]


def test_buffers_of_one_operand_are_one():
    made = check([launch(5, n, 5) for n in range(5)], slots_of(6), 1)
    assert len(made.buffers) == 1 and len(made.uses) == 2
    assert all(made.records[use.record].kind is Rdma for use in made.uses)
    assert made.buffers[0].first_record <= made.uses[0].record <= made.uses[1].record <= made.buffers[0].last_record


def test_runs_whose_buffers_differ_stay():
    flat = program_of([launch(5, n, 5) for n in range(4)])
    flat.buffers = [Buffer("x", 0, 16 if n % 2 else 32, 2, 256, b.first_record, b.last_record) for n, b in enumerate(flat.buffers)]
    assert reroll(flat, slots_of(6))[0] is flat


def test_chains():
    chains = SlotChains()
    for path in ([3, 1, 5], [5, 1], [0, 3], [2, 4, 6]):
        longer = chains.with_paths([path])
        assert isinstance(longer, SlotChains)
        chains = longer
    assert chains.order(8) == [0, 3, 1, 5, 2, 4, 6, 7]
    assert chains.with_paths([[7, 1]]) == 0, "1 has two beside it"
    assert chains.with_paths([[7, 0], [5, 7]]) == 0, "a ring"
    assert chains.with_paths([[7, 2, 7]]) == 1
    assert chains.with_paths([[7, 8, 8, 8]]) == 0
    assert chains.with_paths([[8, 8, 8, 7]]) == 2
