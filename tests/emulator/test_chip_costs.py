"""What the chip description says of the kernel core, of DDR's rates, of the program and of the host is what the model charges."""

from dataclasses import replace

import pytest

from hlo2tx8.device.chip import ATTAINED_PATH, load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import INSTRUCTIONS, Engine, Instruction
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcHalt, KcWait
from hlo2tx8.device.isa.kc_vector import KcVAdd, KcVAtan2, KcVDiv, KcVPow, KcVRem
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind
from hlo2tx8.device.timing import model
from hlo2tx8.device.timing.model import follow

CHIP, ATTAINED = load_chip(), load_chip(ATTAINED_PATH)
ELEMENTS = 1 << 12
BEATS = ELEMENTS * Format.FP32.bytes // CHIP.cycles.kc_vector_bytes_per_cycle


def program(records: list[Record], slots: tuple[Slot, ...] = ()) -> Program:
    code, origins = encode_records(records)
    return Program(code, slots, (), origins, CHIP.spm_limit)


@pytest.mark.parametrize(
    ("cls", "beat"),
    [(KcVAdd, 1), (KcVDiv, 16), (KcVRem, 32), (KcVAtan2, 48), (KcVPow, 64)],
)
def test_kernel_core_operations_cost_what_they_take(cls: type[Instruction], beat: int) -> None:
    record = Record(cls, {"dst": 0, "a": 1 << 16, "b": 1 << 17, "n": ELEMENTS}, Format.FP32)
    assert model(program([record, Record(KcHalt)]), CHIP).busy == {"KC": BEATS * beat}


def test_every_cost_is_one_of_its_engine() -> None:
    for cls in INSTRUCTIONS:
        assert cls.COST == "simple" or cls.COST.startswith(cls.ENGINE.name.lower()), cls.__name__
        assert cls.COST == "simple" or cls.ENGINE in (Engine.CT, Engine.KC)


def stream(cls: type[Instruction]) -> Program:
    """One tile moves a MiB; all do, so that they share the DDR."""
    spm, ddr = ("dst", "src")[cls is Wdma], {"slot": 0, "offset": 0}
    size = 1 << 20
    levels = {"s1": 0, "n1": 1, "s2": 0, "n2": 1, "s3": 0, "n3": 1}
    wait = [Record(KcWait, {"engines": 63}), Record(KcBarrier), Record(KcHalt)]
    move = Record(cls, {spm: 0, "count": size, **ddr, **levels}, Format.INT8)
    return program([move, *wait], (Slot(SlotKind.INPUT, 0, "int8", (size,), size),))


@pytest.mark.parametrize(("cls", "rate"), [(Rdma, 155.8e9), (Wdma, 165.8e9)])
def test_attained_rates(cls: type[Instruction], rate: float) -> None:
    moved = CHIP.tiles * (1 << 20)
    quick, slow = model(stream(cls), CHIP), model(stream(cls), ATTAINED)
    assert slow.cycles - quick.cycles == pytest.approx(moved * (1 / rate - 1 / 200e9) * CHIP.clock_hz, rel=1e-6)
    assert sum(timed.cycles for *_, timed in follow(stream(cls), ATTAINED)) == pytest.approx(slow.cycles - slow.launch, rel=1e-9)
    assert slow.ddr_bytes == quick.ddr_bytes == moved


def test_long_programs_are_fetched_longer_than_launched() -> None:
    for num, launch in ((999, 2000), (4000, (4000 + 1) * 256 / 128)):
        records = [Record(KcAffine, {"rd": 2, "c": i}) for i in range(num)]
        report = model(program([*records, Record(KcHalt)]), CHIP)
        assert report.launch == report.overhead["launch"] == launch
        assert report.cycles == launch + num
    assert model(program([Record(KcHalt)]), replace(CHIP, cycles=replace(CHIP.cycles, program_bytes_per_cycle=1))).launch == 2000


def test_host_transfers_are_reported_apart() -> None:
    report = model(stream(Rdma), CHIP)
    assert report.host_transfer_seconds == (1 << 20) / 64e9
    assert report.as_dict()["host_transfer_seconds"] == report.host_transfer_seconds
