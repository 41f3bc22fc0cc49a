"""The least cycles that any program takes for a module on a chip, and where a program's own cycles go beyond that."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.program import Program, SlotKind
from hlo2tx8.device.rates import Rates
from hlo2tx8.device.timing import Report
from hlo2tx8.hlo.least_work import LeastWork
from hlo2tx8.runtime.named_slots import named_slots


@dataclass(frozen=True)
class LowerBound:
    """Of the work of a module as it was given: cycles by resource (DDR, NE, CT) and of the launch."""

    work: LeastWork
    resources: Mapping[str, float]
    launch: float

    @staticmethod
    def of(work: LeastWork, chip: Chip) -> "LowerBound":
        """The bound on a chip."""
        rates = Rates.of(chip)
        peaks = {key: 2 * rates.tiles * (rates.int8_products if key == "int8" else rates.products) for key in work.products}
        products = sum(operations / peaks[key] for key, operations in work.products.items())
        vectors = work.vector_bytes / (rates.tiles * rates.vector)
        ddr = work.ddr_bytes / rates.ddr
        return LowerBound(work, {"DDR": ddr, "NE": products, "CT": vectors}, float(chip.cycles.launch))

    @cached_property
    def resource(self) -> str:
        """The resource that takes longest."""
        return max(self.resources, key=lambda name: self.resources[name])

    @property
    def cycles(self) -> float:
        """The launch and what the busiest resource takes."""
        return self.launch + self.resources[self.resource]

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {"cycles": self.cycles, "resource": self.resource, "resources": dict(self.resources), "bytes": self.work.ddr_bytes}


def losses(program: Program, report: Report, bound: LowerBound) -> dict[str, float]:
    """What a program does beyond the bound, each in the cycles it takes by itself; they may overlap, so they do not add up.

    rereads         bytes of inputs and constants beyond those that must be read, at the rate of the DDR
    intermediates   bytes from and to scratch
    short runs      what the DDR takes longer because runs are short
    extra work      what NE and CT compute beyond the bound, at their peaks
    imbalance       what the busiest tile's busiest engine works longer than the mean of the tiles
    waiting         what is left of the time when nothing is the busiest resource: barriers, starts, work in series
    """
    moved = _moved_bytes(program, report)
    rate = report.ddr_bytes_per_cycle
    read = moved[SlotKind.INPUT] + moved[SlotKind.CONSTANT] + moved[SlotKind.OUTPUT]
    counters = report.engines
    busiest = max(report.busy, key=lambda name: report.busy[name], default="")
    mean = counters[busiest].busy_cycles if busiest else 0.0
    most = report.busy.get(busiest, 0.0)
    computed = {name: counters[name].busy_cycles - bound.resources[name] for name in ("NE", "CT") if name in counters}
    return {
        "rereads": max(0.0, read - bound.work.ddr_bytes) / rate,
        "intermediates": moved[SlotKind.SCRATCH] / rate,
        "short runs": max(0.0, report.ddr_cycles - report.ddr_bytes / rate),
        "extra work": max(0.0, *computed.values()),
        "imbalance": most - mean,
        "waiting": max(0.0, report.cycles - report.launch - max(report.ddr_cycles, most)),
    }


def _moved_bytes(program: Program, report: Report) -> dict[SlotKind, float]:
    """Bytes that transfers move from and to the slots of each kind; of slots of which nothing is known, as of scratch."""
    found = dict.fromkeys(SlotKind, 0.0)
    for number, slots in named_slots(decode_records(program.code, program.origins)):
        kinds = [program.slots[slot].kind for slot in slots] or [SlotKind.SCRATCH]
        for kind in kinds:
            found[kind] += report.records[number].bytes / len(kinds)
    return found
