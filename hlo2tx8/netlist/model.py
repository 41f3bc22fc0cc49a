"""What a netlist says, section by section, as frozen dataclasses; fields are called as in the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from hlo2tx8.netlist.config import TestConfig
from hlo2tx8.netlist.fields import (
    Place,
    boolean,
    choice,
    known,
    list_of,
    means,
    named_of,
    nonempty,
    number,
    one_or_list,
    placed,
    schema_of,
    several,
    text,
    whole,
)
from hlo2tx8.netlist.formats import Format, data_format
from hlo2tx8.netlist.instructions import Program
from hlo2tx8.netlist.shapes import Blocked
from hlo2tx8.netlist.tms import Tm, read_tms
from hlo2tx8.netlist.tree import Items, Node

ARCHES = ("grayskull", "wormhole", "wormhole_b0", "blackhole")
FIDELITIES = ("LoFi", "HiFi2", "HiFi2_A", "HiFi2_B", "HiFi3", "HiFi4")
Devices: TypeAlias = int | tuple[int, ...]
Address: TypeAlias = int | tuple[int, ...]
Where: TypeAlias = Literal["netlist", "chip"]
"""Where ops run on the chip: each on the tiles that its grid says, or on all."""


@means({"enum": [word for arch in ARCHES for word in (arch, arch.upper())]})
def arch(node: Node, place: Place) -> str:
    """An architecture, in any case."""
    word = text(node, place).lower()
    return word if word in ARCHES else place.refuse(f"{word!r} is none of {', '.join(ARCHES)}", node.line)


@means({"anyOf": [schema_of(whole()), schema_of(several(whole(), 2))]})
def address(node: Node, place: Place) -> Address:
    """[channel, address], or an address alone."""
    return several(whole(), 2)(node, place) if isinstance(node, Items) else whole()(node, place)


@dataclass(frozen=True)
class DeviceSection:
    """The section `devices`; of several architectures one is chosen for a run."""

    arch: str | tuple[str, ...] = known(one_or_list(arch))

    @property
    def arches(self) -> tuple[str, ...]:
        return (self.arch,) if isinstance(self.arch, str) else self.arch


@dataclass(frozen=True, kw_only=True)
class Queue(Blocked):
    """A queue or ram. `instance_of` is the name in the file if the queue is one of several devices'."""

    name: str
    input: str = known(nonempty)
    type: Literal["queue", "ram"] = known(choice("queue", "ram"))
    entries: int = known(whole(1, 1 << 24))
    df: Format = known(data_format)
    layout: str = known(choice("tilized", "flat"), "tilized")
    target_device: Devices = known(one_or_list(whole()))
    loc: str = known(choice("dram", "host"))
    dram: tuple[Address, ...] = known(list_of(address), ())
    host: tuple[Address, ...] = known(list_of(address), ())
    alias: str = known(text, "")
    input_tms: tuple[Tm, ...] = known(read_tms, ())
    read_ports: tuple[int, ...] = known(list_of(whole(0, 2)), ())
    write_ports: tuple[int, ...] = known(list_of(whole(0, 2)), ())
    instance_of: str = ""
    line: int = placed()

    @property
    def is_ram(self) -> bool:
        return self.type == "ram"

    @property
    def is_fed_by_host(self) -> bool:
        return self.input == "HOST" or "net2net" in self.input

    @property
    def is_flat(self) -> bool:
        """Elements keep the host's order: tile k is elements 1024k to 1024k+1023."""
        return self.layout == "flat" or self.df.family == "raw"

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self.dram if self.loc == "dram" else self.host


@dataclass(frozen=True)
class Pad:
    """Tile rows and columns that are appended, or with `input_<n>_unpad` dropped."""

    rt: int = known(whole(0, 1 << 16), 0)
    ct: int = known(whole(0, 1 << 16), 0)
    pad_value: float = known(number, 0.0)


@means({"type": ["array", "null"], "items": {"type": "object"}})
def forks(node: Node, place: Place) -> tuple[tuple[str, str], ...]:
    """[queue: op, ..]"""
    return tuple(
        (key, nonempty(given, place))
        for item in list_of(lambda n, _: n)(node, place)
        for key, given, _ in named_of(item, place, "queue")
    )


@dataclass(frozen=True, kw_only=True)
class Op(Blocked):
    """An op of a graph. Tensor manipulations, pads and unpads are by number of the input."""

    name: str
    type: str = known(nonempty)
    inputs: tuple[str, ...] = known(list_of(nonempty))
    grid_loc: tuple[int, ...] = known(list_of(whole(0, 1 << 16)), ())
    grid_transpose: bool = known(boolean, False)
    in_df: tuple[Format, ...] = known(list_of(data_format))
    out_df: Format = known(data_format)
    intermed_df: Format = known(data_format)
    acc_df: Format = known(data_format)
    math_fidelity: str = known(choice(*FIDELITIES))
    buf_size_mb: int = known(whole(0, 1 << 16), 1)
    untilize_output: bool = known(boolean, False)
    gradient_op: bool = known(boolean, False)
    input_buf_min_size_tiles: tuple[int, ...] = known(list_of(whole()), ())
    input_dram_io_buf_size_tiles: tuple[int, ...] = known(list_of(whole()), ())
    overlay_size: int | None = known(whole(), None)
    forked_dram_inputs: tuple[tuple[str, str], ...] = known(forks, ())
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tms: Mapping[int, tuple[Tm, ...]] = field(default_factory=dict[int, tuple[Tm, ...]])
    pads: Mapping[int, Pad] = field(default_factory=dict[int, Pad])
    unpads: Mapping[int, Pad] = field(default_factory=dict[int, Pad])
    line: int = placed()

    @property
    def cores(self) -> frozenset[tuple[int, int]]:
        """Cores of the device that it occupies; none for ops of the ethernet."""
        if len(self.grid_loc) != 2 or self.type == "ethernet_datacopy":
            return frozenset()
        rows, columns = reversed(self.grid_size) if self.grid_transpose else self.grid_size
        return frozenset((self.grid_loc[0] + r, self.grid_loc[1] + c) for r in range(rows) for c in range(columns))


@dataclass(frozen=True)
class NetGraph:
    """Ops that run at once on one device, `input_count` times per execution."""

    name: str
    target_device: Devices = known(one_or_list(whole()))
    input_count: int = known(whole(1, 1 << 32))
    ops: tuple[Op, ...] = ()
    instance_of: str = ""
    line: int = placed()


@dataclass(frozen=True)
class ScheduledOp:
    """A step of a fused op."""

    name: str
    type: str = known(nonempty)
    inputs: tuple[str, ...] = known(list_of(nonempty, 1))
    output: str = known(nonempty)
    mblock: tuple[int, int] = known(several(whole(1, 1 << 16), 2))
    ublock: tuple[int, int] = known(several(whole(1, 1 << 16), 2))
    pop: tuple[str, ...] = known(list_of(nonempty), ())
    pop_last: tuple[str, ...] = known(list_of(nonempty), ())
    zero_point: float = known(number, 0.0)
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tms: Mapping[int, tuple[Tm, ...]] = field(default_factory=dict[int, tuple[Tm, ...]])
    line: int = placed()

    @property
    def pops(self) -> tuple[str, ...]:
        return (*self.pop, *self.pop_last)


@dataclass(frozen=True)
class FusedOp:
    """Schedules, lists of steps that run one after the other."""

    name: str
    inputs: int = known(whole(0, 64))
    intermediates: int = known(whole(0, 64))
    custom_kernel_path: str = known(text, "")
    schedules: tuple[tuple[ScheduledOp, ...], ...] = ()
    line: int = placed()

    @property
    def steps(self) -> tuple[ScheduledOp, ...]:
        return tuple(step for schedule in self.schedules for step in schedule)


@dataclass(frozen=True)
class Netlist:
    """A whole file; graphs, queues and programs in its order. `performance` is that section as it is written."""

    devices: DeviceSection
    queues: Mapping[str, Queue]
    graphs: Mapping[str, NetGraph]
    programs: tuple[Program, ...]
    fused_ops: Mapping[str, FusedOp] = field(default_factory=dict[str, FusedOp])
    test_config: TestConfig | None = None
    performance: Mapping[str, Any] = field(default_factory=dict[str, Any])
    file: str = field(default="", compare=False)

    @property
    def ops(self) -> Mapping[str, Op]:
        return {op.name: op for graph in self.graphs.values() for op in graph.ops}
