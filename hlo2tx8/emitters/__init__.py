"""Emitters: fusions to LOOPS modules. `emit_fusion` asks each emitter in order; the first match emits."""

import re

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.emitters.emitter import Declined, Emitter, Fusion, Match
from hlo2tx8.emitters.gemm import GemmEmitter
from hlo2tx8.emitters.hero import hero
from hlo2tx8.emitters.loop import LoopEmitter
from hlo2tx8.emitters.reduction import ReductionEmitter
from hlo2tx8.emitters.rows import RowEmitter
from hlo2tx8.emitters.update import UpdateEmitter
from hlo2tx8.errors import UnsupportedError
from hlo2tx8.schedule.work_split import Target

EMITTERS: tuple[Emitter, ...] = (UpdateEmitter(), GemmEmitter(), RowEmitter(), ReductionEmitter(), LoopEmitter())
"""In the order they are asked: specific heroes first, loop last."""

TAKEN = re.compile(r"(?P<kernel>\w+): (?P<emitter>[\w-]+) emitter, hero kind (?P<hero>.*)")
"""The note about the emitter that took a fusion."""

__all__ = ["EMITTERS", "TAKEN", "Declined", "Emitter", "Fusion", "Match", "emit_fusion"]


def emit_fusion(fusion: Operation, name: str, target: Target, notes: list[str] | None = None) -> ModuleOp:
    """The LOOPS module `name` of an `hlo.fusion`; UnsupportedError lists every op that no emitter can compute.

    `notes` gets a line per emitter that was asked.
    """
    described = Fusion(fusion, name, hero(fusion), target)
    notes = [] if notes is None else notes
    declined: list[Declined] = []
    for emitter in EMITTERS:
        result = emitter.match(described)
        if isinstance(result, Match):
            notes.append(f"{name}: {emitter.name} emitter, hero kind {described.hero.kind}: {described.hero.reason}")
            return emitter.emit(result)
        notes.append(f"{name}: {emitter.name} emitter declines: {result.reason}")
        declined.append(result)
    raise UnsupportedError(declined[-1].ops)
