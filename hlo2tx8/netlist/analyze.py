"""What the graphs of a netlist take on the chip: cycles of each op, and how far that is from what any program takes."""

from collections.abc import Mapping
from dataclasses import dataclass

from hlo2tx8.netlist.epochs import Epoch
from hlo2tx8.netlist.tx8 import Tx8
from hlo2tx8.runtime.executable import Executable

REST = "(control)"
LAUNCH = "(launch)"


@dataclass(frozen=True)
class EpochCost:
    """Modelled cycles of one tensor through a temporal epoch, which has so many `tensors` an execution.

    `bound` is what no program can be below, `ops` are cycles by op, the slowest first, with those of launches and of what belongs
    to no op; `resources` are the shares of the cycles in which engines and DDR are busy.
    """

    name: str
    tensors: int
    cycles: float
    bound: float
    ops: Mapping[str, float]
    resources: Mapping[str, float]

    @property
    def slowest(self) -> str:
        """The op that takes most, "" if there is none."""
        return next((name for name in self.ops if name not in (REST, LAUNCH)), "")

    def as_dict(self) -> dict[str, object]:
        """Plain values for YAML."""
        numbers = {"cycles": self.cycles, "bound": self.bound, "reached": self.bound / self.cycles if self.cycles else 1.0}
        rounded = {name: round(value, 3) for name, value in numbers.items()}
        parts = {"ops": self.ops, "busy": self.resources}
        shares = {name: {key: round(value, 3) for key, value in part.items()} for name, part in parts.items()}
        return {"epoch": self.name, "tensors": self.tensors, **rounded, "slowest op": self.slowest, **shares}


def cost_of(epoch: Epoch, chip: Tx8) -> EpochCost:
    """The cost of an epoch that was compiled, for the longest lists of sparse products that it was compiled for."""
    cycles = bound = 0.0
    ops: dict[str, float] = {}
    busy: dict[str, float] = {}
    for segment in epoch.segments:
        keys = [key for key in chip.compiled if key[0] == segment.name]
        if not keys or not isinstance(executable := chip.compiled[max(keys)], Executable):
            continue
        profile, least = executable.profile(), executable.lower_bound
        inputs = max(keys)[2]
        cycles += profile.report.cycles / inputs
        bound += least.cycles / inputs if least is not None else 0.0
        names = {op.name for op in segment.ops}
        other = next(iter(names)) if len(names) == 1 else REST
        for row in profile.instructions:
            name = next((part for part in row.name.split("/")[:2] if part in names), other)
            ops[name] = ops.get(name, 0.0) + row.cycles / inputs
        for row in profile.fusions[:1]:
            ops[LAUNCH] = ops.get(LAUNCH, 0.0) + row.cycles / inputs
        for name, value in {"DDR": profile.report.ddr_cycles, **profile.report.busy}.items():
            busy[name] = busy.get(name, 0.0) + value / inputs
    rest = cycles - sum(ops.values())
    if rest > 0.5:
        ops[REST] = ops.get(REST, 0.0) + rest
    ordered = dict(sorted(ops.items(), key=lambda item: -item[1]))
    shares = dict(sorted(((name, value / cycles) for name, value in busy.items() if value), key=lambda item: -item[1]))
    return EpochCost(epoch.name, epoch.graphs[0].input_count, cycles, bound, ordered, shares)
