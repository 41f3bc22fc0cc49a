"""What the graphs of a netlist take on the chip: cycles of each op, and how far that is from what any program takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.netlist.edges import Edge, edges_of, op_of, sent_by
from hlo2tx8.netlist.epochs import Epoch
from hlo2tx8.netlist.tx8 import Tx8
from hlo2tx8.runtime.executable import Executable

REST = "(control)"
LAUNCH = "(launch)"


@dataclass(frozen=True)
class EpochCost:
    """Modelled cycles of one tensor through a temporal epoch, which has so many `tensors` an execution.

    `bound` is what no program can be below, `ops` are cycles by op, the slowest first, with those of launches and of what belongs
    to no op; `resources` are the shares of the cycles in which engines and DDR are busy. `placement` is its kind, or "chip" if all
    tiles run all ops, else `tiles` says which run each; `at_once` inputs are under way. `edges` are what is moved for a tensor,
    `links` the bytes that go over each link of the mesh for it.
    """

    name: str
    tensors: int
    cycles: float
    bound: float
    ops: Mapping[str, float]
    resources: Mapping[str, float]
    placement: str = "chip"
    at_once: int = 1
    tiles: Mapping[str, Rectangle] = field(default_factory=dict[str, Rectangle])
    edges: Sequence[Edge] = ()
    links: Mapping[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])

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
        placed = {"placement": self.placement, "at once": self.at_once, "tiles": {op: str(at) for op, at in self.tiles.items()}}
        links = [{"from": a, "to": b, "bytes": round(moved)} for (a, b), moved in self.links.items()]
        moved = {"edges": [edge.as_dict() for edge in self.edges], "links": links}
        return {"epoch": self.name, "tensors": self.tensors, **rounded, "slowest op": self.slowest, **shares, **placed, **moved}


def cost_of(epoch: Epoch, chip: Tx8) -> EpochCost:
    """The cost of an epoch that was compiled, for the longest lists of sparse products that it was compiled for."""
    cycles = bound = 0.0
    ops: dict[str, float] = {}
    busy: dict[str, float] = {}
    edges: list[Edge] = []
    links: dict[tuple[int, int], float] = {}
    placements = [chip.place(segment) for segment in epoch.segments] if chip.placement == "netlist" else []
    tiles = {name: at for placement in placements for name, at in placement.tiles.items()}
    for segment in epoch.segments:
        keys = [key for key in chip.compiled if key[0] == segment.name]
        if not keys or not isinstance(executable := chip.compiled[max(keys)], Executable):
            continue
        profile, least = executable.profile(), executable.lower_bound
        inputs = max(keys)[2]
        cycles += profile.report.cycles / inputs
        bound += least.cycles / inputs if least is not None else 0.0
        names = [op.name for op in segment.ops]
        other = names[0] if len(names) == 1 else REST
        for row in profile.instructions:
            name = op_of(row.name, names, other)
            ops[name] = ops.get(name, 0.0) + row.cycles / inputs
        for row in profile.fusions[:1]:
            ops[LAUNCH] = ops.get(LAUNCH, 0.0) + row.cycles / inputs
        for name, value in {"DDR": profile.report.ddr_cycles, **profile.report.busy}.items():
            busy[name] = busy.get(name, 0.0) + value / inputs
        sent = sent_by(executable)
        edges += edges_of(executable, segment, {name: at.num_tiles for name, at in tiles.items()}, inputs, sent)
        for link, moved in sent.links.items():
            links[link] = links.get(link, 0.0) + moved / inputs
    links = dict(sorted(links.items(), key=lambda item: (-item[1], item[0])))
    rest = cycles - sum(ops.values())
    if rest > 0.5:
        ops[REST] = ops.get(REST, 0.0) + rest
    ordered = dict(sorted(ops.items(), key=lambda item: -item[1]))
    shares = dict(sorted(((name, value / cycles) for name, value in busy.items() if value), key=lambda item: -item[1]))
    at_once = chip.inputs_at_once(epoch)
    kind = "chip" if not placements else next((p.kind for p in placements if p.kind != "given"), "given")
    count = epoch.graphs[0].input_count
    return EpochCost(epoch.name, count, cycles, bound, ordered, shares, kind, at_once, tiles, edges, links)
