"""What a module for several chips should give: all chips together in the evaluator, with how far each element may be off.

Segments run in the evaluator, host ops on arrays and on their bounds: what moves an array moves its bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from hlo2tx8.compiler.driver import chip_of
from hlo2tx8.errors import UnsupportedError
from hlo2tx8.hlo.error_bounds import evaluate_with_bounds
from hlo2tx8.hlo.error_bounds.bounded import Bounded, Undecided
from hlo2tx8.hlo.error_bounds.evaluator import BoundingEvaluator
from hlo2tx8.hlo.evaluator import is_elementwise
from hlo2tx8.hlo.host_ops import FEEDS
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.module import find_main
from hlo2tx8.options import Options
from hlo2tx8.spmd.chips_module import ChipsModule
from hlo2tx8.spmd.collectives import Array, DeviceArrays, collective_of, groups_of
from hlo2tx8.spmd.feeds import Feeds, Infeed, feed
from hlo2tx8.spmd.host_functions import HostFunctions
from hlo2tx8.spmd.pod_launch import Run
from hlo2tx8.spmd.segmented_executable import RunStep, SegmentCompiler
from hlo2tx8.spmd.segments import cut_at_host_ops

BoundedArrays = dict[int, list[Bounded]]
REDUCING = ("stablehlo.all_reduce", "stablehlo.reduce_scatter")


@dataclass(frozen=True)
class Expected:
    """Results and outfeeds as of a ChipsExecutable, and the bound of each element (float64)."""

    results: list[list[Array]]
    limits: list[list[Array]]
    outfed: list[list[list[Array]]]
    outfed_limits: list[list[list[Array]]]


def expected_of(module: ChipsModule, inputs: Sequence[Sequence[Array]], infeed: Infeed | None, *, is_xla: bool = False) -> Expected:
    """What a run on these inputs should give.

    A module that was partitioned is evaluated as the whole that it was, if it has nothing that is for chips.
    """
    if module.load_whole is not None:
        try:
            pairs = [evaluate_with_bounds(module.load_whole(), *own, is_xla=is_xla) for own in inputs]
        except UnsupportedError:
            pass
        else:
            nothing: list[list[list[Array]]] = [[] for _ in range(module.num_chips)]
            return Expected([results for results, _ in pairs], [limits for _, limits in pairs], nothing, nothing)
    try:
        found, outfed = _run(module, inputs, infeed, is_xla=is_xla)
    except Undecided:
        found, outfed = _run(module, inputs, infeed, is_xla=is_xla, is_plain=True)
    return Expected(
        module.wholes_of([[value.array for value in own] for own in found]),
        module.wholes_of([[np.asarray(value.errors) for value in own] for own in found]),
        [[[value.array for value in own] for own in chip] for chip in outfed],
        [[[np.asarray(value.errors) for value in own] for own in chip] for chip in outfed],
    )


def _run(
    module: ChipsModule, inputs: Sequence[Sequence[Array]], infeed: Infeed | None, *, is_xla: bool, is_plain: bool = False
) -> tuple[list[list[Bounded]], list[list[list[Bounded]]]]:
    """Results and outfeeds of each chip; `is_plain`: nothing is known of them, since rounding may decide how often a loop turns."""
    options = Options()
    steps = _BoundingSteps(options, HostFunctions(), module.counts, _no_watch, chip_of(options))
    steps.is_xla, steps.is_plain = is_xla, is_plain
    steps.feeds.start(infeed)
    given: Any = {chip: [Bounded(array) for array in own] for chip, own in enumerate(module.parts_of(inputs))}
    results: Any = steps.sequence(cut_at_host_ops(module.load()), 1).run(given, Run())
    outfed: Any = steps.feeds.outfed
    chips = range(module.num_chips)
    if is_plain:
        unknown = [[value.unknown() for value in results[chip]] for chip in chips]
        return unknown, [[[value.unknown() for value in own] for own in outfed.get(chip, [])] for chip in chips]
    return [results[chip] for chip in chips], [outfed.get(chip, []) for chip in chips]


class _BoundingSteps(SegmentCompiler):
    """The steps of a module, on values with their bounds."""

    is_xla = False
    is_plain = False
    """Are bounds left out?"""

    def segment(self, module: ModuleOp, count: int) -> RunStep:
        functions = {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp)}
        evaluator, block = BoundingEvaluator(functions, is_xla=self.is_xla), find_main(module).body.block

        def run(arrays: Any, progress: object) -> Any:
            found = {device: evaluator.run(block, own, {}) for device, own in arrays.items()}
            return {device: [self.bounded(v.array, v.errors) for v in own] for device, own in found.items()}

        return run

    def bounded(self, value: Array, error: Array) -> Bounded:
        return Bounded(value) if self.is_plain else Bounded.of(value, error)

    def host_op(self, op: Operation, count: int) -> RunStep:
        if op.name in FEEDS:
            return _feeding(op, self.feeds)
        plain = collective_of(op, *self.num_devices)
        moved = self.reduction(op) if op.name in REDUCING else plain

        def run(arrays: Any, progress: object) -> Any:
            values = plain({device: [value.array for value in own] for device, own in arrays.items()})
            errors = moved(arrays if op.name in REDUCING else _errors(arrays)) if op.operands else _none(values)
            pairs = {device: zip(own, errors[device], strict=True) for device, own in values.items()}
            return {device: [self.bounded(value, error) for value, error in own] for device, own in pairs.items()}

        return run

    def reduction(self, op: Operation) -> Callable[[Any], DeviceArrays]:
        """The bounds of what an all_reduce or reduce_scatter gives, from values with bounds."""
        region, groups = op.regions[0], groups_of(op, *self.num_devices)
        lifted = BoundingEvaluator({}, is_xla=self.is_xla).lifted()
        dimension = attributes_of(op).get("scatter_dimension")

        def total(column: Sequence[Bounded]) -> Bounded:
            found = column[0]
            for value in column[1:]:
                (found,) = lifted.run(region.block, [found, value], {}) if is_elementwise(region, {}) else [found.unknown()]
            return found

        def run(arrays: BoundedArrays) -> DeviceArrays:
            found: DeviceArrays = {}
            for group in groups:
                if group[0] not in arrays:
                    continue
                errors = [np.asarray(total(column).errors) for column in zip(*(arrays[i] for i in group), strict=True)]
                parts = [[e] * len(group) if dimension is None else np.split(e, len(group), dimension) for e in errors]
                found |= {device: [own[n] for own in parts] for n, device in enumerate(group)}
            return {device: found.get(device) or [np.zeros(())] * len(own) for device, own in arrays.items()}

        return run


def _feeding(op: Operation, feeds: Feeds) -> RunStep:
    run = feed(op, feeds)

    def step(arrays: Any, progress: object) -> Any:
        found = run(arrays)
        return {device: [v if isinstance(v, Bounded) else Bounded(v) for v in own] for device, own in found.items()}

    return step


def _errors(arrays: BoundedArrays) -> DeviceArrays:
    return {device: [np.asarray(value.errors) for value in own] for device, own in arrays.items()}


def _none(values: DeviceArrays) -> DeviceArrays:
    return {device: [np.zeros(value.shape) for value in own] for device, own in values.items()}


def _no_watch(part: float, what: str) -> None:
    pass
