"""Work split of arithmetic on points whose channels lie innermost: a step has some points with all of their channels.

f16 [4, 112, 2, 129] on 16 tiles        896 points of 129 channels: 56 of a tile, in 4 steps of 14
"""

from dataclasses import replace
from math import prod

from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.indexing import Const, Dim, delinearize
from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.schedule.accesses import SPM_SHARE, AccessAnalysis
from hlo2tx8.schedule.work_split import DEFAULT_STEP_ELEMENTS, WorkSplit, split_work

LEAST_STEP_ELEMENTS = 768
"""Of a step, with padding: with fewer, starting the engines costs more than steps overlap."""
MOST_STEPS = 4
"""Steps of a tile whose share is small."""


def split_channels(shape: tuple[int, ...], function: SubgraphFunction, accesses: AccessAnalysis) -> WorkSplit | str:
    """The split of [..., points, channels], or why a step cannot have whole points."""
    target, points, channels = accesses.target, prod(shape[:-1]), shape[-1]
    if points < 2 or channels < 2:
        return "there are no points that several channels have in common"
    width = Blocked(Format.FP32, 1, 1, channels).aligned_channels
    fits = int(SPM_SHARE * target.rates.spm_bytes / accesses.bytes_per_element(function))
    most = min(target.step_elements or DEFAULT_STEP_ELEMENTS, fits) // width
    if most < 2:
        return f"two points of {channels} channels do not fit a step"
    share = -(-points // target.rates.tiles)
    box = max(2, -(-share // _num_steps(share, width, most))), channels
    first = next(dim for dim, size in enumerate(shape) if size > 1)
    to_output = (*[Const(0)] * first, *delinearize(Dim(0), shape[first:-1]), Dim(1))
    return replace(split_work((points, channels), to_output, 0, target.rates.tiles, box=box), in_channel_blocks=True)


def _num_steps(points: int, width: int, most: int) -> int:
    """Steps of a tile with so many points of a width, at most `most` each: few if its share is small, equal ones if there are."""
    least = -(-points // most)
    wanted = max(least, min(MOST_STEPS, points * width // LEAST_STEP_ELEMENTS), 1)
    return next((n for n in range(wanted, max(least, wanted // 2, 1) - 1, -1) if points % n == 0), wanted)
