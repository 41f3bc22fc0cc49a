"""Emitters: fusions to LOOPS modules. The hero analysis names the emitters to ask; the first that matches emits."""

import re
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.emitters.batchnorm import BatchNormEmitter, expand_batch_norms
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits
from hlo2tx8.emitters.concatenate import ConcatenateEmitter
from hlo2tx8.emitters.emitter import Declined, Emitter, Fusion, Match
from hlo2tx8.emitters.gemm import GemmEmitter
from hlo2tx8.emitters.hero import HeroKind, heroes
from hlo2tx8.emitters.join import JoinEmitter
from hlo2tx8.emitters.loop import LoopEmitter
from hlo2tx8.emitters.plan_kernel import KernelPlanner
from hlo2tx8.emitters.reduction import ReductionEmitter
from hlo2tx8.emitters.rows import RowEmitter
from hlo2tx8.emitters.scan import ScanEmitter
from hlo2tx8.emitters.sort import SortEmitter
from hlo2tx8.emitters.transpose import TransposeEmitter
from hlo2tx8.emitters.update import UpdateEmitter
from hlo2tx8.errors import UnsupportedError
from hlo2tx8.schedule.work_split import Target

EMITTERS: Mapping[HeroKind, Emitter] = {
    "batchnorm": BatchNormEmitter(),
    "sort": SortEmitter(),
    "scan": ScanEmitter(),
    "join": JoinEmitter(),
    "update": UpdateEmitter(),
    "gemm": GemmEmitter(),
    "row": RowEmitter(),
    "reduction": ReductionEmitter(),
    "concatenate": ConcatenateEmitter(),
    "transpose": TransposeEmitter(),
    "loop": LoopEmitter(),
}
"""The emitter that each kind of hero asks for."""

EMITTED = re.compile(r"(?P<kernel>\w+): (?P<emitter>[\w-]+) emitter, ")
"""Begins the note about the emitter that took a fusion or a group."""
TAKEN = re.compile(EMITTED.pattern + "hero kind (?P<hero>.*)")
"""The note about the emitter that took a fusion."""

__all__ = ["EMITTED", "EMITTERS", "TAKEN", "Declined", "Emitter", "Fusion", "Match", "emit_fusion"]


ALONE: tuple[HeroKind, ...] = ("batchnorm", "sort", "scan", "join", "update", "gemm")
"""Heroes whose emitter is the only one that is asked if it takes a fusion: others are far slower at them, or cannot do them."""


def emit_fusion(
    fusion: Operation, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of an `hlo.fusion`; UnsupportedError lists every op that no emitter can compute.

    `notes` gets a line per emitter that was asked and per candidate; `chooser` says which of the candidates is taken.
    CapacityError if none fits the scratchpad.
    """
    asked = list(heroes(fusion))
    notes = [] if notes is None else notes
    declined: list[Declined] = []
    chooser = chooser or FirstThatFits()
    planner = KernelPlanner(name, chooser, target.rates.spm_bytes)
    taken: list[tuple[float, ModuleOp]] = []
    while asked:
        hero = asked.pop(0)
        emitter = EMITTERS[hero.kind]
        result = emitter.match(Fusion(fusion, name, hero, target))
        if isinstance(result, Declined):
            notes.append(f"{name}: {emitter.name} emitter declines: {result.reason}")
            declined.append(result)
        elif (found := planner.take(emitter, result, notes)) is not None:
            taken.append(found)
            if not chooser.asks_all:
                notes.append(f"{name}: {emitter.name} emitter, hero kind {hero.kind}: {hero.reason}")
            if not chooser.asks_all or hero.kind in ALONE:
                break
        if hero.kind == "batchnorm":  # all other emitters take its arithmetic
            fusion = expand_batch_norms(fusion)
            asked = list(heroes(fusion))
    if taken:
        return min(taken, key=lambda own: own[0])[1]
    if planner.rejected or not declined:
        raise planner.failure()
    raise UnsupportedError(declined[-1].ops)
