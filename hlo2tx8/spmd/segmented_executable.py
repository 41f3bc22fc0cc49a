"""Executables of programs that the chip interrupts: several encoded programs and what happens between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, assert_never

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.compiler.driver import Watch, chip_of
from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.emulator import Progress
from hlo2tx8.device.faults import FaultPlace
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.module import module_name
from hlo2tx8.hlo.signature import Signature, signature_of
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.spmd.collectives import Array, Rows, exchange_of
from hlo2tx8.spmd.host_functions import TARGET, HostFunction, HostFunctions, call_host
from hlo2tx8.spmd.link_time import link_cycles
from hlo2tx8.spmd.segments import Branch, Exchange, Loop, Segment, Split, Step

Run = Callable[[Rows, Progress | None], Rows]
Everyone = list[list[Array]]
"""Arrays of every device."""
SUMMED = ("cycles", "seconds", "bytes accessed", "flops", "transcendentals")
HERE = FaultPlace(0, 0, "host")
"""Where a run is between two programs."""


@dataclass(frozen=True)
class Steps:
    """What is done one after the other, with the numbers of the values each reads and gives; inputs are values 0, 1, ..."""

    steps: tuple[tuple[Run, tuple[int, ...], tuple[int, ...]], ...]
    results: tuple[int, ...]

    def run(self, inputs: Rows, progress: Progress | None) -> Rows:
        """The results on every device that takes part."""
        values: dict[int, dict[int, Array]] = {device: dict(enumerate(row)) for device, row in inputs.items()}
        for run, read, given in self.steps:
            found = run({device: [row[i] for i in read] for device, row in values.items()}, progress)
            for device, row in values.items():
                row.update(zip(given, map(_contiguous, found[device]), strict=True))
        return {device: [row[i] for i in self.results] for device, row in values.items()}


@dataclass(frozen=True)
class SplitExecutable:
    """Programs run one after the other on every device, with exchanges between them. Answers as an Executable does.

    `parts` are the programs, and how often each runs: once, where data decide.
    """

    name: str
    signature: Signature
    parts: tuple[tuple[Executable, int], ...]
    steps: Steps
    functions: tuple[HostFunction, ...] = field(default=())
    link_cycles: float = 0.0
    chip: Chip = field(default_factory=load_chip)

    def launch(self, arrays: Sequence[Array], progress: Progress | None = None) -> list[Array]:
        """Results of one device's inputs, where there is only one device."""
        return self.execute_rows([list(arrays)], progress)[0]

    def execute_rows(self, rows: Everyone, progress: Progress | None = None) -> Everyone:
        """Results by device for inputs by device; `progress` as in Emulator.run."""
        found = self.steps.run(dict(enumerate(rows)), progress)
        return [found[device] for device in range(len(rows))]

    def cost_analysis(self) -> dict[str, object]:
        """Sums over the programs and the exchanges between them; "link_cycles" are the exchanges alone. Host functions are free."""
        totals: dict[str, object] = {}
        for part, turns in self.parts:
            for key, value in part.cost_analysis().items():
                if key in SUMMED and isinstance(value, (int, float)):
                    before: Any = totals.get(key, 0)
                    totals[key] = before + turns * value
        if self.link_cycles:
            cycles, seconds = self.link_cycles, self.link_cycles / self.chip.clock_hz
            for key, more in (("cycles", cycles), ("seconds", seconds), ("link_cycles", cycles)):
                before = totals.get(key, 0)
                totals[key] = before + more
        return totals

    def memory_analysis(self) -> dict[str, int]:
        """Arguments and outputs of the whole; the programs' scratch, constants and code together."""
        sizes: dict[str, int] = {}
        for part, _ in self.parts:
            for key, value in part.memory_analysis().items():
                sizes[key] = max(sizes.get(key, 0), value) if key == "spm_size_in_bytes" else sizes.get(key, 0) + value
        sizes["temp_size_in_bytes"] = sizes.get("temp_size_in_bytes", 0) + sizes.get("output_size_in_bytes", 0)
        sizes["argument_size_in_bytes"] = sum(port.size_bytes for port in self.signature.inputs)
        sizes["output_size_in_bytes"] = sum(port.size_bytes for port in self.signature.outputs)
        return sizes


def compile_split(
    module: ModuleOp, found: Split, options: Options, functions: HostFunctions, shape: tuple[int, int], watch: Watch
) -> SplitExecutable:
    """Compiles every segment; `shape` is the number of replicas and of partitions."""
    compiler = _Compiler(options, functions, shape, watch, chip_of(options))
    steps = compiler.steps(found, 1)
    name, signature = module_name(module), signature_of(module)
    return SplitExecutable(name, signature, tuple(compiler.parts), steps, tuple(compiler.kept), compiler.link_cycles, compiler.chip)


@dataclass
class _Compiler:
    """Compiles segments, and adds up what the program needs."""

    options: Options
    functions: HostFunctions
    shape: tuple[int, int]
    watch: Watch
    chip: Chip
    parts: list[tuple[Executable, int]] = field(default_factory=list[tuple[Executable, int]])
    kept: list[HostFunction] = field(default_factory=list[HostFunction])
    link_cycles: float = 0.0

    def steps(self, found: Split, turns: int) -> Steps:
        """What runs for @main or a region, that many times."""
        return Steps(tuple((self.step(step, turns), step.inputs, step.outputs) for step in found.steps), found.results)

    def step(self, step: Step, turns: int) -> Run:
        match step:
            case Segment():
                part = compile_module(step.module.clone, self.options, self.watch)
                self.parts.append((part, turns))
                return partial(_run_part, part)
            case Exchange():
                return self.exchange(step.op, turns)
            case Loop():
                inner = turns if step.turns is None else turns * step.turns
                body = self.steps(step.body, inner)
                if step.turns is not None:
                    return partial(_repeat, step.turns, body)
                return partial(_while, self.steps(step.condition, turns), body)
            case Branch():
                return partial(_branch, [self.steps(region, turns) for region in step.regions])
            case _:
                assert_never(step)

    def exchange(self, op: Operation, turns: int) -> Run:
        """What the host does, or the links."""
        attributes = decode_attributes(op)
        if attributes.get("call_target_name") != TARGET:
            self.link_cycles += turns * link_cycles(op, *self.shape, self.chip)
            work = exchange_of(op, *self.shape)
            return lambda rows, progress: work(rows)
        function = self.functions.find(str(attributes["backend_config"]))
        self.kept.append(function)
        types = [(tensor_like(result.type).shape, tensor_like(result.type).dtype) for result in op.results]
        return lambda rows, progress: {device: call_host(function, row, types) for device, row in rows.items()}


def _run_part(part: Executable, rows: Rows, progress: Progress | None) -> Rows:
    first = next(iter(rows.values()))
    if all(a is b for row in rows.values() for a, b in zip(row, first, strict=True)):
        return dict.fromkeys(rows, part.launch(part.signature.check(first), progress))  # every device does the same
    return {device: part.launch(part.signature.check(row), progress) for device, row in rows.items()}


def _repeat(turns: int, body: Steps, rows: Rows, progress: Progress | None) -> Rows:
    """The state after that many turns of the body, which reads it and what follows it in a row."""
    for _ in range(turns):
        rows = _turn(body, rows, progress)
    return _state(body, rows)


def _while(condition: Steps, body: Steps, rows: Rows, progress: Progress | None) -> Rows:
    """The state once the condition fails; every device on its own, so far as exchanges let it."""
    rows = dict(rows)
    going = rows
    while going:
        wanted = condition.run(going, progress)
        going = {device: row for device, row in going.items() if wanted[device][0]}
        going = _turn(body, going, progress) if going else {}
        rows |= going
    return _state(body, rows)


def _turn(body: Steps, rows: Rows, progress: Progress | None) -> Rows:
    if progress is not None:
        progress(HERE)
    count = len(body.results)
    found = body.run(rows, progress)
    return {device: [*found[device], *row[count:]] for device, row in rows.items()}


def _state(body: Steps, rows: Rows) -> Rows:
    return {device: row[: len(body.results)] for device, row in rows.items()}


def _branch(regions: Sequence[Steps], rows: Rows, progress: Progress | None) -> Rows:
    """What the region gives that each device picks."""
    groups: dict[int, Rows] = {}
    for device, (picked, *row) in rows.items():
        number = int(picked)
        groups.setdefault(number if 0 <= number < len(regions) else len(regions) - 1, {})[device] = row
    found: Rows = {}
    for number, group in groups.items():
        found |= regions[number].run(group, progress)
    return found


def _contiguous(value: Array) -> Array:
    """The same array where that will do: devices that share one do the same work."""
    array = np.asarray(value)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
