"""Which memory of its own a machine has between two runs."""

from dataclasses import replace

import numpy as np
import pytest

from hlo2tx8.device import native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.host_memory import KEPT_BYTES, RECYCLED_BYTES
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.kc_control import KcHalt
from hlo2tx8.device.native.machines import KEPT, NativeMachine
from hlo2tx8.device.program import Program, Slot, SlotKind

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

CHIP = load_chip()


@pytest.fixture(autouse=True)
def _no_machines_of_others():
    while KEPT.machines:
        KEPT.machines.pop().destroy()


def program_with(size_bytes: int) -> Program:
    code, origins = encode_records([Record(KcHalt)])
    code.flags.writeable = False
    return Program(code, (Slot(SlotKind.SCRATCH, 0, "uint8", (size_bytes,), size_bytes),), (), origins, CHIP.spm_bytes)


def run(program: Program) -> NativeMachine:
    native.run(program, [], CHIP, 1, given=program.given)
    return KEPT.machines[0]


def scratch_of(machine: NativeMachine) -> list[np.ndarray]:
    return machine.memory[0][1]


def test_large_scratch_stays_for_the_next_run_of_the_same_program():
    program = program_with(RECYCLED_BYTES)
    machine = run(program)
    address = scratch_of(machine)[0].ctypes.data
    assert run(program) is machine and scratch_of(machine)[0].ctypes.data == address == machine.table[0]


def test_the_machine_that_ran_last_has_scratch_and_no_other():
    first, second = program_with(RECYCLED_BYTES), program_with(2 * RECYCLED_BYTES)
    machine = run(first)
    KEPT.machines.clear()  # as if somebody else ran on it meanwhile
    other = run(second)
    KEPT.give(machine)
    assert scratch_of(machine) and not scratch_of(other)
    assert run(second) is other
    assert scratch_of(other) and not scratch_of(machine)


@pytest.mark.parametrize("program", [replace(program_with(RECYCLED_BYTES), trusted=False), program_with(KEPT_BYTES + 4096)])
def test_neither_where_it_must_be_zeros_nor_more_than_waits_anywhere(program: Program):
    assert not scratch_of(run(program))
    assert not scratch_of(run(program))


def test_with_the_program_it_goes():
    program = program_with(RECYCLED_BYTES)
    machine = run(program)
    assert machine.memory
    del program
    assert not machine.memory
