"""Executables of programs that the chip interrupts: several encoded programs and what happens between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.emulator import Progress
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.driver import Watch, chip_of, compile_module
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.module import module_name, signature_of
from hlo2tx8.options import Options
from hlo2tx8.pjrt.collectives import Array, Rows, exchange_of
from hlo2tx8.pjrt.host_calls import TARGET, HostFunction, HostFunctions, call_host
from hlo2tx8.pjrt.link_time import link_cycles
from hlo2tx8.pjrt.split_program import Segment, Split, run_steps
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.signature import Signature

Run = Callable[[Rows, Progress | None], Rows]
Step = tuple[Run, tuple[int, ...], tuple[int, ...]]
SUMMED = ("cycles", "seconds", "bytes accessed", "flops", "transcendentals")


@dataclass(frozen=True)
class SplitExecutable:
    """Programs run one after the other on every device, with exchanges between them. Answers as an Executable does."""

    name: str
    signature: Signature
    parts: tuple[Executable, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    functions: tuple[HostFunction, ...] = field(default=())
    link_cycles: float = 0.0
    chip: Chip = field(default_factory=load_chip)

    def launch(self, arrays: Sequence[Array], progress: Progress | None = None) -> list[Array]:
        """Results of one device's inputs, where there is only one device."""
        return self.execute_rows([list(arrays)], progress)[0]

    def execute_rows(self, rows: Rows, progress: Progress | None = None) -> Rows:
        """Results by device for inputs by device; `progress` as in Emulator.run."""
        return run_steps(self.steps, self.results, rows, progress)

    def cost_analysis(self) -> dict[str, object]:
        """Sums over the programs and the exchanges between them; "link_cycles" are the exchanges alone. Host functions are free."""
        totals: dict[str, object] = {}
        for part in self.parts:
            for key, value in part.cost_analysis().items():
                if key in SUMMED and isinstance(value, (int, float)):
                    before: Any = totals.get(key, 0)
                    totals[key] = before + value
        if self.link_cycles:
            cycles, seconds = self.link_cycles, self.link_cycles / self.chip.clock_hz
            for key, more in (("cycles", cycles), ("seconds", seconds), ("link_cycles", cycles)):
                before = totals.get(key, 0)
                totals[key] = before + more
        return totals

    def memory_analysis(self) -> dict[str, int]:
        """Arguments and outputs of the whole; the programs' scratch, constants and code together."""
        sizes: dict[str, int] = {}
        for part in self.parts:
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
    parts: list[Executable] = []
    steps: list[Step] = []
    kept: list[HostFunction] = []
    chip, cycles = chip_of(options), 0.0
    for step in found.steps:
        if isinstance(step, Segment):
            part = compile_module(step.module.clone, options, watch)
            parts.append(part)
            run: Run = partial(_run_part, part)
        elif decode_attributes(step.op).get("call_target_name") == TARGET:
            function = functions.find(str(decode_attributes(step.op)["backend_config"]))
            kept.append(function)
            run = _host_call(function, step.op)
        else:
            run = _exchange(exchange_of(step.op, *shape))
            cycles += link_cycles(step.op, *shape, chip)
        steps.append((run, step.inputs, step.outputs))
    name, signature = module_name(module), signature_of(module)
    return SplitExecutable(name, signature, tuple(parts), tuple(steps), found.results, tuple(kept), cycles, chip)


def _run_part(part: Executable, rows: Rows, progress: Progress | None) -> Rows:
    if all(a is b for row in rows for a, b in zip(row, rows[0], strict=True)):
        return [part.launch(part.signature.check(rows[0]), progress)] * len(rows)  # every device does the same
    return [part.launch(part.signature.check(row), progress) for row in rows]


def _exchange(work: Callable[[Rows], Rows]) -> Run:
    return lambda rows, progress: work(rows)


def _host_call(function: HostFunction, op: Operation) -> Run:
    assert str(decode_attributes(op)["call_target_name"]) == TARGET
    types = [(tensor_like(result.type).shape, tensor_like(result.type).dtype) for result in op.results]
    return lambda rows, progress: [call_host(function, row, types) for row in rows]
