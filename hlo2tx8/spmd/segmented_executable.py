"""SegmentedExecutable: several compiled programs, and the host ops between them, run as one on all devices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, assert_never

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.compiler.driver import Watch, chip_of
from hlo2tx8.device.chip import Chip, ChipError, load_chip
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.device.emulator import Progress
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.errors import InputError
from hlo2tx8.hlo.error_bounds.bounded import Bounded
from hlo2tx8.hlo.host_ops import DEVICE_IDS, FEEDS
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.module import module_name
from hlo2tx8.hlo.signature import Signature, signature_of
from hlo2tx8.hlo.turns import Turns
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.runtime.executable import Executable, ends_after
from hlo2tx8.spmd.collectives import Array, DeviceArrays, collective_of
from hlo2tx8.spmd.feeds import Feeds, feed
from hlo2tx8.spmd.host_functions import HOST_CALL_TARGET, HostFunction, HostFunctions, call_host
from hlo2tx8.spmd.link_step import LinkStep, link_step, run_on_all
from hlo2tx8.spmd.pod_launch import PodProgram, Run
from hlo2tx8.spmd.segments import HostConditional, HostLoop, HostOp, HostStep, Segment, SegmentedRegion

RunStep = Callable[[DeviceArrays, Run], DeviceArrays]
"""A step's results on every device that takes part, from its inputs there."""
ADDED_UP = ("cycles", "seconds", "bytes accessed", "flops", "transcendentals")
"""Figures of cost_analysis that are sums over the programs."""


@dataclass(frozen=True)
class StepSequence:
    """Steps that run one after another, each with the numbers of the values that it reads and defines; inputs are 0, 1, ..."""

    steps: tuple[tuple[RunStep, tuple[int, ...], tuple[int, ...]], ...]
    results: tuple[int, ...]

    def run(self, inputs: DeviceArrays, run: Run) -> DeviceArrays:
        """The results on every device that takes part."""
        values: dict[int, dict[int, Array]] = {device: dict(enumerate(arrays)) for device, arrays in inputs.items()}
        for number, (step, read, defined) in enumerate(self.steps):
            found = step({device: [own[i] for i in read] for device, own in values.items()}, run.at(number))
            for device, own in values.items():
                own.update(zip(defined, map(_contiguous, found[device]), strict=True))
        return {device: [own[i] for i in self.results] for device, own in values.items()}


@dataclass(frozen=True)
class SegmentedExecutable:
    """The programs of a SegmentedRegion and what the host does between them; it has the methods of an Executable.

    `programs` are the compiled segments, and what combines parts in collective ops, with how often each runs (once where data
    decide); `functions` are the host functions that it keeps alive; `links` are its collective ops on chips in that `mesh`.
    """

    name: str
    signature: Signature
    programs: tuple[tuple[Executable, int], ...]
    steps: StepSequence
    functions: tuple[HostFunction, ...] = field(default=())
    links: tuple[tuple[LinkStep, int], ...] = ()
    chip: Chip = field(default_factory=load_chip)
    mesh: ChipMesh = field(default_factory=lambda: ChipMesh(1, 1))
    timeout: float = 0.0
    feeds: Feeds = field(default_factory=Feeds)

    def launch(self, arrays: Sequence[Array], progress: Progress | None = None) -> list[Array]:
        """The results, for a program of one device."""
        return self.launch_all([list(arrays)], progress)[0]

    def launch_all(self, inputs: Sequence[list[Array]], progress: Progress | None = None) -> list[list[Array]]:
        """The results of every device, from the inputs of every device; `progress` as in Emulator.run. DeviceError after
        `timeout`.
        """
        found = self.launch_here(dict(enumerate(inputs)), progress)
        return [found[device] for device in range(len(inputs))]

    def launch_here(self, inputs: DeviceArrays, progress: Progress | None = None, pod: PodProgram | None = None) -> DeviceArrays:
        """As `launch_all`, for the devices of this process where a pod has the others; also PodError."""
        if self.timeout:
            progress = ends_after(self.timeout, progress)
        if pod is None:
            return self.steps.run(inputs, Run(progress))
        return pod.run(lambda run: self.steps.run(inputs, run), progress)

    @property
    def link_cycles(self) -> float:
        """Cycles that all its collective ops take on the links."""
        return sum(count * step.link_cycles for step, count in self.links)

    def cost_analysis(self) -> dict[str, object]:
        """Sums over the programs and the collective ops; "link_cycles" are the latter alone. Host functions take no time."""
        totals: dict[str, object] = {}
        for program, count in self.programs:
            for key, value in program.cost_analysis().items():
                if key in ADDED_UP and isinstance(value, (int, float)):
                    before: Any = totals.get(key, 0)
                    totals[key] = before + count * value
        if self.link_cycles:
            cycles, seconds = self.link_cycles, self.link_cycles / self.chip.clock_hz
            for key, more in (("cycles", cycles), ("seconds", seconds), ("link_cycles", cycles)):
                before = totals.get(key, 0)
                totals[key] = before + more
        return totals

    def memory_analysis(self) -> dict[str, int]:
        """Sizes of the arguments and outputs of the whole, and sums of the programs' other sizes; the largest use of SPM."""
        sizes: dict[str, int] = {}
        for program, _ in self.programs:
            for key, value in program.memory_analysis().items():
                sizes[key] = max(sizes.get(key, 0), value) if key == "spm_size_in_bytes" else sizes.get(key, 0) + value
        sizes["temp_size_in_bytes"] = sizes.get("temp_size_in_bytes", 0) + sizes.get("output_size_in_bytes", 0)
        sizes["argument_size_in_bytes"] = sum(port.size_bytes for port in self.signature.inputs)
        sizes["output_size_in_bytes"] = sum(port.size_bytes for port in self.signature.outputs)
        return sizes


def compile_segments(
    module: ModuleOp,
    region: SegmentedRegion,
    options: Options,
    functions: HostFunctions,
    num_devices: tuple[int, int],
    watch: Watch,
    chip: Chip | None = None,
) -> SegmentedExecutable:
    """Compiles every segment of a module; `num_devices` are the numbers of replicas and of partitions. `chip`: that of the options
    with another mesh of chips."""
    compiler = SegmentCompiler(options, functions, num_devices, watch, chip or chip_of(options))
    steps = compiler.sequence(region, 1)
    name, signature, programs = module_name(module), signature_of(module), tuple(compiler.programs)
    links = tuple(compiler.links)
    found = SegmentedExecutable(name, signature, programs, steps, tuple(compiler.kept), links, compiler.chip, compiler.mesh)
    return replace(found, timeout=options.timeout, feeds=compiler.feeds)


def mesh_of(chip: Chip, count: int) -> ChipMesh:
    """As ChipMesh.of; InputError if the chip's description has fewer chips."""
    try:
        return ChipMesh.of(chip, count)
    except ChipError as error:
        raise InputError("E1004", str(error)) from None


@dataclass
class SegmentCompiler:
    """Compiles segments, and collects programs, collective ops and host functions of the whole module."""

    options: Options
    functions: HostFunctions
    num_devices: tuple[int, int]
    watch: Watch
    chip: Chip
    programs: list[tuple[Executable, int]] = field(default_factory=list[tuple[Executable, int]])
    kept: list[HostFunction] = field(default_factory=list[HostFunction])
    links: list[tuple[LinkStep, int]] = field(default_factory=list[tuple[LinkStep, int]])
    combinations: dict[str, Executable] = field(default_factory=dict[str, Executable])
    feeds: Feeds = field(default_factory=Feeds)

    @cached_property
    def mesh(self) -> ChipMesh:
        """The chips."""
        return mesh_of(self.chip, self.num_devices[0] * self.num_devices[1])

    def sequence(self, region: SegmentedRegion, count: int) -> StepSequence:
        """The steps of @main or a region, which runs `count` times."""
        return StepSequence(tuple((self.step(step, count), step.inputs, step.outputs) for step in region.steps), region.results)

    def step(self, step: HostStep, count: int) -> RunStep:
        match step:
            case Segment():
                return self.segment(step.module, count)
            case HostOp():
                return self.host_op(step.op, count)
            case HostLoop():
                body = self.sequence(step.body, count if step.trip_count is None else count * step.trip_count)
                if step.trip_count is not None:
                    return partial(_run_counted_loop, step.trip_count, body, self.options.max_steps)
                return partial(_run_while, self.sequence(step.condition, count), body, self.options.max_steps)
            case HostConditional():
                return partial(_run_conditional, [self.sequence(region, count) for region in step.regions])
            case _:
                assert_never(step)

    def segment(self, module: ModuleOp, count: int) -> RunStep:
        """What every device runs between two host ops."""
        return partial(run_on_all, self.compiled(module, count))

    def compiled(self, module: ModuleOp, count: int) -> Executable:
        """The program of a module, which every device runs so often."""
        program = compile_module(module.clone, self.options, self.watch)
        self.programs.append((program, count))
        return program

    def combination(self, module: ModuleOp, count: int) -> Executable:
        """The program of what combines parts; ops of the same shapes share one."""
        plain = module.clone()
        for op in plain.walk():
            op.attributes.pop("loc", None)
        key = str(plain)
        if key in self.combinations:
            self.programs.append((self.combinations[key], count))
        else:
            self.combinations[key] = self.compiled(module, count)
        return self.combinations[key]

    def host_op(self, op: Operation, count: int) -> RunStep:
        if op.name in FEEDS:
            run = feed(op, self.feeds)
            return lambda arrays, _: run(arrays)
        attributes = decode_attributes(op)
        if attributes.get("call_target_name") != HOST_CALL_TARGET:
            if op.name in DEVICE_IDS:
                ids = collective_of(op, *self.num_devices)
                return lambda arrays, _: ids(arrays)
            step = link_step(op, self.num_devices, self.mesh, self.chip, partial(self.combination, count=count))
            self.links.append((step, count))
            return step.run
        function = self.functions.find(str(attributes["backend_config"]))
        self.kept.append(function)
        types = [(tensor_like(result.type).shape, tensor_like(result.type).dtype) for result in op.results]
        return lambda arrays, _: {device: call_host(function, own, types) for device, own in arrays.items()}


def _run_counted_loop(trip_count: int, body: StepSequence, max_steps: int, arrays: DeviceArrays, run: Run) -> DeviceArrays:
    """The state after `trip_count` runs of the body. Each device's arrays are the state, then what the body reads from outside."""
    turns = Turns(max_steps)
    for turn in range(trip_count):
        turns.take()
        arrays = _run_body(body, arrays, run.at(turn))
    return _state(body, arrays)


def _run_while(condition: StepSequence, body: StepSequence, max_steps: int, arrays: DeviceArrays, run: Run) -> DeviceArrays:
    """The state once the condition fails. Each device leaves the loop on its own, so far as its collective ops let it."""
    arrays = dict(arrays)
    running, turns = arrays, Turns(max_steps)
    turn = -1
    while running:
        turn += 1
        goes_on = condition.run(running, run.at(2 * turn))
        running = {device: own for device, own in running.items() if decided(goes_on[device][0])}
        if running:
            turns.take()
            running = _run_body(body, running, run.at(2 * turn + 1))
        arrays |= running
    return _state(body, arrays)


def _run_body(body: StepSequence, arrays: DeviceArrays, run: Run) -> DeviceArrays:
    """The arrays with the state after one run of the body in the place of the state."""
    run.tick()
    count = len(body.results)
    found = body.run(arrays, run)
    return {device: [*found[device], *own[count:]] for device, own in arrays.items()}


def _state(body: StepSequence, arrays: DeviceArrays) -> DeviceArrays:
    return {device: own[: len(body.results)] for device, own in arrays.items()}


def _run_conditional(regions: Sequence[StepSequence], arrays: DeviceArrays, run: Run) -> DeviceArrays:
    """The results of the region that each device's first array picks; devices that pick the same region run it together."""
    groups: dict[int, DeviceArrays] = {}
    for device, (picked, *own) in arrays.items():
        number = int(decided(picked))
        groups.setdefault(number if 0 <= number < len(regions) else len(regions) - 1, {})[device] = own
    found: DeviceArrays = {}
    for number, group in sorted(groups.items()):
        found |= regions[number].run(group, run.at(number))
    return found


def decided(value: Any) -> Any:
    """The element that a loop or conditional asks for, of an array or of what says how far an array may be off."""
    return value.decided if isinstance(value, Bounded) else value


def _contiguous(value: Any) -> Any:
    """The array in C order; the same object if it is so already, as devices with one array share their work."""
    if isinstance(value, Bounded):
        return value
    array = np.asarray(value)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
