"""Lowers one kernel in memory, so that a plan can ask what its buffers take before it is taken.

A kernel module at LOOPS goes through all passes below, on its own. Where nobody looks at the levels between, the kernel that was
lowered so is the one that is linked: nothing is lowered twice.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hlo2tx8.compiler.apply import apply, configure, for_kernel
from hlo2tx8.compiler.known_kernels import KNOWN
from hlo2tx8.compiler.pipeline import KERNEL_STAGES
from hlo2tx8.device.chip import Chip
from hlo2tx8.device.timing import model
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.dialects.xla import STAYS
from hlo2tx8.emitters.emit_fusions import EmitFusionsPass, fusion_name
from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.fingerprint import HashedOnce, fingerprint
from hlo2tx8.hlo.placement import part_of, room_of
from hlo2tx8.link import link_alone
from hlo2tx8.lower.buffer_table import end_of_buffers
from hlo2tx8.lower.dma.allocate_spm import AllocateSpmPass
from hlo2tx8.lower.encode.encode import EncodedKernel, encode
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.options import Level, Options
from hlo2tx8.schedule.plan import Feasibility

Show = Callable[[Level, str, ModuleOp], None]
"""Is shown the module, whose name is \"\", or a kernel at a level: it may look at it until it returns."""
LAST_OF_KERNEL = {stage.after: stage for stage in KERNEL_STAGES if stage.after < Level.PROGRAM}
"""The stage after which a kernel is at a level."""


@dataclass
class KernelTrial:
    """Says of kernels what their buffers take; `is_for_good`: the kernels themselves become those at PROGRAM, else copies of them.

    `watch` hears of each pass, with the share of all `stages` done, and ends the compilation by what it raises; kernels are emitted
    in stage `emission`, of which `share` is done. `lowered` are the kernels at PROGRAM, each with what it was at LOOPS; `seconds`
    what each pass took for them. `show` is shown those that are lowered for good at each level above PROGRAM. `tried` are those of
    the kernel that is emitted now that were lowered to be timed, by its name, what stays, and what they were: one may be taken.
    `encoded` are the records of those of both that were timed.
    """

    options: Options
    chip: Chip
    is_for_good: bool
    watch: Callable[[float, str], None]
    emission: int
    stages: int
    share: float = 0.0
    lowered: dict[ModuleOp, Hashable] = field(default_factory=dict[ModuleOp, Hashable])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    show: Show | None = None
    tried: dict[Hashable, ModuleOp] = field(default_factory=dict[Hashable, ModuleOp])
    encoded: dict[ModuleOp, EncodedKernel] = field(default_factory=dict[ModuleOp, EncodedKernel])
    lowerings: dict[tuple[int, int], "Lowering"] = field(default_factory=dict[tuple[int, int], "Lowering"])

    def __call__(self, kernel: ModuleOp) -> Feasibility:
        """What the buffers of a kernel take, or why it cannot be lowered: the matrix engine has no order for its lanes.

        Other errors are those of the kernel whatever its plan: raised now if it is lowered for good, else by its passes later.
        """
        key = self._key(kernel)
        if not self.is_for_good:
            return KNOWN.get(("buffers", key), lambda: self._judged(cloned(kernel)))
        tried = self.tried.get((kernel.sym_name, kernel.attributes.get(STAYS), key))
        records = {module: self.encoded.pop(module, None) for module in self.tried.values()}
        self.tried.clear()
        if tried is not None:
            become(kernel, tried)
            if (known := records[tried]) is not None:
                self.encoded[kernel] = known
        found = self._judged(kernel, is_lowered=tried is not None)
        if not found.why:
            self.lowered[kernel] = key
        return KNOWN.get(("buffers", key), lambda: found)

    def _judged(self, module: ModuleOp, *, is_lowered: bool = False) -> Feasibility:
        try:
            if not is_lowered:
                self._lower(module)
        except EngineOrderError as error:
            return Feasibility(0, error.message)
        except CompileError:
            if self.is_for_good:
                raise
            return Feasibility(0)
        return Feasibility(self._spm_bytes(module))

    def at(self, share: float) -> None:
        """Fusions are emitted up to that share of all."""
        self.share = share

    def begin(self, op: Operation) -> None:
        """The fastest plan of a fusion or a group is searched for."""
        self.tell(f"search for {fusion_name(op)}")

    def tell(self, what: str) -> None:
        """Says what comes next."""
        self.watch((self.emission + self.share) / self.stages, what)

    def timed(self, kernel: ModuleOp, meeting: int) -> Feasibility:
        """The same, with its modelled cycles if its buffers fit, and `meeting` if several tiles have work. Raises what its
        passes do. The kernel, which may have been lowered for good, stays as it is."""
        key = self.lowered.get(kernel) or self._key(kernel)
        return KNOWN.get((meeting, kernel.attributes.get(STAYS), key), partial(self._timed, kernel, meeting, key))

    def _timed(self, kernel: ModuleOp, meeting: int, key: Hashable) -> Feasibility:
        module = kernel if kernel in self.lowered else cloned(kernel)
        try:
            if module is not kernel:
                self._lower(module)
        except EngineOrderError as error:
            return Feasibility(0, error.message)
        if module is not kernel and self.is_for_good and self.show is None:
            self.tried[kernel.sym_name, kernel.attributes.get(STAYS), key] = module
        spm_bytes = self._spm_bytes(module)
        if spm_bytes > self.chip.spm_limit - self.chip.spm_allocation_start:
            return Feasibility(spm_bytes)
        part = part_of(module)
        chip = self.chip.part(part) if part else self.chip
        encoded = encode(module)
        if module in self.tried.values() or module in self.lowered:
            self.encoded[module] = encoded
        program, is_alone = link_alone(encoded, chip)
        report = model(program, chip)
        cycles, stays = report.cycles, module.attributes.get(STAYS)
        besides = (0 if is_alone else meeting) - report.overhead["launch"]
        if isinstance(stays, DenseArrayBase):  # one of so many turns loads it; a kernel of which nothing stays is lowered the same
            KNOWN.get((meeting, None, key), partial(Feasibility, spm_bytes, "", cycles + besides))
            turns, *numbers = stays.get_values()
            others = model(link_alone(encoded, chip, numbers)[0], chip).cycles
            cycles = others + (cycles - others) / turns
        return Feasibility(spm_bytes, "", cycles + besides)

    def _spm_bytes(self, module: ModuleOp) -> int:
        functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
        return max(map(end_of_buffers, functions), default=0) - self.chip.spm_allocation_start

    def seconds_with(self, seconds: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
        """The seconds of all passes, where those of kernels that were lowered for good are their passes'."""
        own = {name: self.seconds.get(name, 0.0) for name, _ in seconds}
        emission = EmitFusionsPass.name
        return tuple((name, s + own[name] - (sum(self.seconds.values()) if name == emission else 0.0)) for name, s in seconds)

    def _lower(self, module: ModuleOp) -> None:
        ctx, name = Context(), module.sym_name.data if module.sym_name else "kernel"
        for stage, step in zip(KERNEL_STAGES, self._steps(module), strict=True):
            started = time.perf_counter()
            self.tell(step.name)
            apply(step, ctx, module, name)
            if self.is_for_good and self.show is not None and stage is LAST_OF_KERNEL.get(stage.after):
                self.show(stage.after, name, module)
            if self.is_for_good:
                self.seconds[step.name] = self.seconds.get(step.name, 0.0) + time.perf_counter() - started

    def _key(self, kernel: ModuleOp) -> Hashable:
        """Equal for kernels of which nothing differs but names, and what stays of them from launch to launch, lowered by the same
        passes for the same chip."""
        return HashedOnce((fingerprint(kernel), self._lowering(kernel)))

    def _steps(self, module: ModuleOp) -> tuple[ModulePass, ...]:
        """The passes that lower a kernel."""
        return self._lowering(module).steps

    def _lowering(self, module: ModuleOp) -> "Lowering":
        part = part_of(module), room_of(module)
        if part not in self.lowerings:
            steps = (for_kernel(configure(stage.step, self.options), module) for stage in KERNEL_STAGES)
            measured = (replace(step, is_measuring=True) if isinstance(step, AllocateSpmPass) else step for step in steps)
            self.lowerings[part] = Lowering(self.chip, tuple(measured))
        return self.lowerings[part]


def become(kernel: ModuleOp, other: ModuleOp) -> None:
    """Gives a kernel all that another module has."""
    kernel.detach_region(0)
    kernel.add_region(other.detach_region(0))
    kernel.attributes, kernel.properties = other.attributes, other.properties


@dataclass(frozen=True)
class Lowering:
    """The chip that a kernel is for, and the passes that lower it; hashed once, as each kernel is known by it."""

    chip: Chip
    steps: tuple[ModulePass, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.chip, self.steps))
