"""From ops that have places to a netlist: graphs, queues between them, addresses, and the program that runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from hlo2tx8.errors import CapacityError
from hlo2tx8.netlist.config import Stimulus, TestConfig
from hlo2tx8.netlist.emit.build import RAW, Builder, Step
from hlo2tx8.netlist.emit.fuse import Chain
from hlo2tx8.netlist.emit.place import Placed, blocks_of, epochs_of, tile_bytes
from hlo2tx8.netlist.emit.sparse import attributes_for, encoding
from hlo2tx8.netlist.formats import FORMATS
from hlo2tx8.netlist.instructions import Assign, Declare, EndLoop, Execute, Instruction, LoopBegin, Program, Setting
from hlo2tx8.netlist.model import DeviceSection, NetGraph, Netlist, Op, Queue
from hlo2tx8.netlist.shapes import TILE, Shape
from hlo2tx8.netlist.tms import Tm

CHANNELS: Mapping[str, int] = {"grayskull": 8, "wormhole": 6, "wormhole_b0": 6, "blackhole": 8}
GRIDS: Mapping[str, tuple[int, int]] = {"grayskull": (10, 12)}
"""Cores of an architecture; 8x8 of others."""
FIRST_ADDRESS, LAST_ADDRESS = 0x10000000, 0x80000000


@dataclass(frozen=True)
class Setup:
    """What a netlist is made for: `tensors` of each input are run at once, `turns` times."""

    arch: str
    grid: tuple[int, int]
    tensors: int
    turns: int


@dataclass
class Assembly:
    """A netlist while its queues get addresses."""

    builder: Builder
    plan: Setup
    queues: dict[str, Queue]
    used: list[int]

    def queue(
        self, name: str, source: str, shape: Shape, df: str, entries: int, like: Placed | None = None, *, is_ram: bool = False
    ) -> None:
        """Add one, in a buffer for each core of the op that feeds it."""
        grid = like.grid if like else (1, 1)
        mblock, ublock = (like.mblock, like.ublock) if like else blocks_of(shape)
        size = 64 + entries * shape.num_tiles // prod(grid) * tile_bytes(df)
        dram: list[tuple[int, int]] = []
        for _ in range(prod(grid)):
            channel = min(range(len(self.used)), key=lambda n: self.used[n])
            dram.append((channel, self.used[channel]))
            self.used[channel] += -(-size // 64) * 64
            if self.used[channel] > LAST_ADDRESS:
                raise CapacityError("E1005", f"queue {name}: tensors take more than the memory of {self.plan.arch}")
        self.queues[name] = Queue(
            name=name,
            input=source,
            type="ram" if is_ram else "queue",
            entries=entries,
            grid_size=grid,
            t=shape.z,
            mblock=mblock,
            ublock=ublock,
            df=FORMATS[df],
            target_device=0,
            loc="dram",
            dram=tuple(dram),
        )


def assemble(
    builder: Builder,
    steps: Sequence[Step],
    chains: Mapping[str, Chain],
    inputs: Mapping[str, tuple[Shape, str]],
    outputs: Mapping[str, str],
    plan: Setup,
    test: Mapping[str, str],
) -> Netlist:
    """The netlist of ops in order; `outputs` are the ops whose results go to queues of these names."""
    inner = {step.name: _inner(builder, step, chains) for step in steps}
    dest = {
        step.name: 4 if _acc(step, plan.arch, [builder.known[n][1] for n, _ in step.inputs]) in ("Float32", "Int32") else 8
        for step in steps
    }
    epochs = epochs_of(steps, inner, plan.grid, dest)
    for one in (one for epoch in epochs for one in epoch if one.step.name in builder.listings):
        words, name = encoding(builder.listings[one.step.name], one.step.shape.z, one.grid[0]), one.step.inputs[2][0]
        builder.rams[name] = words
        builder.known[name] = Shape(1, one.grid[0], words.shape[2] // TILE), RAW
    whole = Assembly(builder, plan, {}, [FIRST_ADDRESS] * CHANNELS[plan.arch])
    total = plan.tensors * plan.turns
    for name, (shape, df) in inputs.items():
        whole.queue(name, "HOST", shape, df, total)
    read = {source for step in steps for source, _ in step.inputs}
    for name in builder.rams:
        if name in read:
            shape, df = builder.known[name]
            whole.queue(name, "HOST", shape, df, 1, is_ram=True)
    numbers = {step.name: number for number, step in enumerate(steps)}
    at = {one.step.name: one for epoch in epochs for one in epoch}
    epoch_of = {one.step.name: number for number, epoch in enumerate(epochs) for one in epoch}
    crossing = {
        source: f"e2e_{source}"
        for step in steps
        for source, _ in step.inputs
        if source in epoch_of and epoch_of[source] != epoch_of[step.name]
    }
    for source, name in crossing.items():
        whole.queue(name, source, at[source].step.shape, at[source].step.df, 2 * plan.tensors, at[source])
    for name, source in outputs.items():
        whole.queue(name, source, at[source].step.shape, at[source].step.df, total, at[source])

    def named(source: str, reader: str) -> str:
        return crossing[source] if source in crossing and epoch_of[source] != epoch_of[reader] else source

    graphs = {
        f"epoch_{number}": NetGraph(
            f"epoch_{number}",
            0,
            plan.tensors,
            tuple(_op(builder, one, plan.arch, named) for one in sorted(epoch, key=lambda one: numbers[one.step.name])),
        )
        for number, epoch in enumerate(epochs)
    }
    return Netlist(
        devices=DeviceSection(plan.arch),
        queues=whole.queues,
        graphs=graphs,
        programs=(_program(graphs, whole.queues, plan),),
        fused_ops={
            name: chains[name].blocked(name, one.mblock, one.ublock)
            for one in at.values()
            if (name := one.step.attributes.get("fused_op_id", ""))
        },
        test_config=TestConfig(
            args={"microbatch_count": str(plan.turns), "microbatch_size": str(plan.tensors), **test},
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            stimulus=Stimulus(overrides=_uniform(builder, whole.queues) | _listed(builder, graphs)),
        ),
    )


def _uniform(builder: Builder, queues: Mapping[str, Queue]) -> dict[str, Stimulus]:
    """What the host fills rams with whose elements are all the same."""
    known = ((name, data, data.flat[0]) for name, data in builder.rams.items() if name in queues)
    same = {name: first for name, data, first in known if bool((data == first).all())}
    return {name: Stimulus("Constant", constant_value=float(value)) for name, value in same.items()}


def _listed(builder: Builder, graphs: Mapping[str, NetGraph]) -> dict[str, Stimulus]:
    """What the host fills tiles and encodings of listed products with, where it is not given them."""
    ops = [op for graph in graphs.values() for op in graph.ops if op.name in builder.listings]
    kinds = ((0, "sparse"), (2, "sparse_encoding"))
    return {op.inputs[at]: Stimulus(kind, matmul_ident_name=op.name) for op in ops for at, kind in kinds}


def _inner(builder: Builder, step: Step, chains: Mapping[str, Chain]) -> int:
    if step.name in builder.listings:
        return builder.listings[step.name].work
    if step.type == "matmul":
        return step.attributes["m_k"] * step.attributes["u_kt"]
    return len(chains[step.attributes["fused_op_id"]].steps) if step.type == "fused_op" else 1


def _acc(step: Step, arch: str, formats: Sequence[str]) -> str:
    formats = [df for df in formats if df != RAW]
    if FORMATS[step.df].is_integer or any(FORMATS[df].is_integer for df in formats):
        return "Int32"
    if not all(FORMATS[df].wide for df in (step.df, *formats)):
        return "Float16"
    return "Float16_b" if arch == "grayskull" else "Float32"


def _op(builder: Builder, placed: Placed, arch: str, named: Any) -> Op:
    step = placed.step
    formats = [builder.known[source][1] for source, _ in step.inputs]
    acc = _acc(step, arch, formats)
    return Op(
        name=step.name,
        type=step.type,
        grid_loc=placed.loc,
        grid_size=placed.grid,
        inputs=tuple(named(source, step.name) for source, _ in step.inputs),
        t=step.shape.z,
        mblock=placed.mblock,
        ublock=placed.ublock,
        ublock_order="r",
        in_df=tuple(FORMATS[df] for df in formats),
        out_df=FORMATS[step.df],
        intermed_df=FORMATS[acc if acc in ("Int32", "Float32") and step.df != "Float16_b" else step.df],
        acc_df=FORMATS[acc],
        math_fidelity="HiFi4" if acc == "Int32" or "Float32" in formats else "HiFi3",
        buf_size_mb=placed.buffers,
        attributes=_attributes(builder, placed),
        tms={number: tms for number, (_, tms) in enumerate(_inputs(builder, placed)) if tms},
    )


def _inputs(builder: Builder, placed: Placed) -> Sequence[tuple[str, tuple[Tm, ...]]]:
    """With the tiles of a listed product for each row of cores."""
    (source, _), *others = placed.step.inputs or (("", ()),)
    is_repeated = placed.step.name in builder.listings and placed.grid[0] > 1
    return [(source, (Tm("broadcast", ("r", placed.grid[0])),)), *others] if is_repeated else placed.step.inputs


def _attributes(builder: Builder, placed: Placed) -> Mapping[str, Any]:
    given = placed.step.attributes
    if (listing := builder.listings.get(placed.step.name)) is not None:
        return attributes_for(listing, placed.grid[0], builder.rams[placed.step.inputs[2][0]])
    if placed.step.type != "matmul":
        return given
    return {**given, "m_k": given["m_k"] * given["u_kt"] // placed.deep, "u_kt": placed.deep}


def _program(graphs: Mapping[str, NetGraph], queues: Mapping[str, Queue], plan: Setup) -> Program:
    """All graphs in turn for as many inputs as run at once, and that as often as there are such."""
    made: list[Instruction] = [
        Declare("staticvar", {"$in": 0, "$between": 0}),
        Declare("var", {"$c_tensors": plan.tensors, "$c_zero": 0}),
        LoopBegin(plan.turns),
    ]
    pointers = {"e2e": 4 * plan.tensors, "": 2 * plan.tensors * plan.turns}
    for graph in graphs.values():
        settings: dict[str, Setting] = {}
        for name in dict.fromkeys(name for op in graph.ops for name in op.inputs if name in queues):
            queue, at = queues[name], "$in" if queues[name].is_fed_by_host else "$between"
            if queue.is_ram:
                settings[name] = Setting(prologue=True, rd_ptr_global="$c_zero", wr_ptr_global="$c_zero")
            else:
                settings[name] = Setting(rd_ptr_local=at, rd_ptr_global=at)
        made.append(Execute(graph.name, settings))
    made.append(Assign("$in", "incwrap", ("$c_tensors", pointers[""])))
    made.append(Assign("$between", "incwrap", ("$c_tensors", pointers["e2e"])))
    return Program("run", (*made, EndLoop()))
