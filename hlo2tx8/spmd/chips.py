"""`compile_for_chips`: one module on several chips, or with infeed and outfeed, for callers other than jax."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hlo2tx8.compiler.driver import Watch, chip_of
from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.errors import InputError
from hlo2tx8.frontend.calling import Calling, call_module, calling_of
from hlo2tx8.frontend.sources import traced
from hlo2tx8.hlo.signature import Signature
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.spmd.chips_module import ChipsModule, module_for_chips
from hlo2tx8.spmd.collectives import Array
from hlo2tx8.spmd.feeds import Infeed
from hlo2tx8.spmd.host_functions import HostFunctions
from hlo2tx8.spmd.segmented_executable import SegmentedExecutable, compile_segments, mesh_of
from hlo2tx8.spmd.segments import cut_at_host_ops


@dataclass(frozen=True)
class ChipsExecutable:
    """A module compiled for several chips, or with infeed and outfeed."""

    module: ChipsModule
    local: SegmentedExecutable
    signature: Signature
    calling: Calling | None = None

    @property
    def num_chips(self) -> int:
        """How many chips run it."""
        return self.module.num_chips

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """As Executable.run, on the arrays that `execute` takes."""
        if self.calling is None:
            return call_module(self.execute, args, kwargs)
        leaves = self.calling.leaves(args, kwargs)
        checked = self.signature.check(leaves, is_narrowing=True)
        return self.calling.results_of(self.execute(*checked))

    def execute(self, *arrays: object, infeed: Infeed | None = None) -> list[Array]:
        """The results of a run. A sharded module, and one chip, take and give whole arrays; else arrays have a leading dimension
        of the number of chips, or of replicas if each of those is sharded. InputError if they do not fit, DeviceError on a fault.
        """
        groups = self.module.num_groups
        if groups == 1:
            return self.execute_all([arrays], infeed)[0]
        stacked = [np.asarray(array) for array in arrays]
        if any(not array.ndim or array.shape[0] != groups for array in stacked):
            raise InputError("E1004", f"arrays need a leading dimension of {groups}, one part for each")
        results = self.execute_all([[array[i] for array in stacked] for i in range(groups)], infeed)
        return [np.stack(column) for column in zip(*results, strict=True)]

    def execute_all(self, inputs: Sequence[Sequence[object]], infeed: Infeed | None = None) -> list[list[Array]]:
        """The results of every chip from the arrays of every chip; of every replica, if the module was sharded."""
        self.local.feeds.start(infeed)
        checked = [list(self.signature.check(own)) for own in inputs]
        return self.module.wholes_of(self.local.launch_all(self.module.parts_of(checked)))

    @property
    def outfeed(self) -> list[list[list[Array]]]:
        """The arrays of each outfeed of each chip in the last run."""
        return [self.local.feeds.outfed.get(chip, []) for chip in range(self.num_chips)]

    def cost_analysis(self) -> dict[str, object]:
        """Modelled cost of one chip's programs, with what the links take: `link_cycles`."""
        return self.local.cost_analysis()

    def memory_analysis(self) -> dict[str, int]:
        """Bytes on one chip."""
        return self.local.memory_analysis()


def compile_for_chips(
    source: Any,
    options: Options,
    *,
    args: Sequence[Any] | None = None,
    format: str = "",
    replicas: int = 0,
    partitions: int = 0,
) -> Executable | ChipsExecutable:
    """Compile a source as `compile_source` does, for several chips if it is for several: see `module_for_chips`."""
    source = traced(source, args)
    module = module_for_chips(source, options, replicas, partitions, args=args, format=format)
    if module is None:
        return compile_source(source, options, args=args, format=format)
    return compile_chips_module(module, options, calling=calling_of(source))


def compile_chips_module(
    module: ChipsModule, options: Options, watch: Watch | None = None, calling: Calling | None = None
) -> ChipsExecutable:
    """Compile what every chip runs."""
    local = module.load()
    segments, chip = cut_at_host_ops(local), chip_for(module, options)
    executable = compile_segments(local, segments, options, HostFunctions(), module.counts, watch or _no_watch, chip)
    return ChipsExecutable(module, executable, module.signature, calling)


def chip_for(module: ChipsModule, options: Options) -> Chip:
    """The chip of the options, with the mesh of chips that the module is for."""
    chip = chip_of(options)
    return replace(chip, chip_mesh=module.mesh, chip_block=()) if module.mesh else chip


def mesh_for(module: ChipsModule, options: Options) -> ChipMesh:
    """The mesh that the module's chips are in; InputError if the chip's description has fewer."""
    return mesh_of(chip_for(module, options), module.num_chips)


def _no_watch(part: float, what: str) -> None:
    pass
