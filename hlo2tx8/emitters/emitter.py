"""What an emitter is: it matches a fusion or declines it with a reason, and emits the fusion's LOOPS module."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from hlo2tx8.emitters.hero import Hero
from hlo2tx8.errors import UnsupportedOp
from hlo2tx8.partitioner.computation import partition
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.work_split import Target


@dataclass(frozen=True)
class Fusion:
    """A fusion to emit: the op, the name its functions get, the hero whose emitter is asked, and the machine it is for."""

    op: Operation
    name: str
    hero: Hero
    target: Target

    @property
    def body(self) -> Block:
        """The computation: block arguments are the parameters, the terminator returns the roots."""
        return self.op.regions[0].block

    @cached_property
    def accesses(self) -> AccessAnalysis:
        """What each function of the partitioned computation reads, in terms of its index."""
        return AccessAnalysis(partition(self.body), self.target)


@dataclass(frozen=True)
class Match:
    """An emitter can emit this fusion."""

    fusion: Fusion


@dataclass(frozen=True)
class Declined:
    """An emitter cannot emit the fusion: why, and the ops it has no way to compute."""

    reason: str
    ops: tuple[UnsupportedOp, ...] = ()


class Emitter(Protocol):
    """One way of generating code for a fusion; stateless."""

    name: str

    def match(self, fusion: Fusion) -> Match | Declined:
        """Can this emitter emit the fusion?"""
        ...

    def emit(self, match: Match) -> ModuleOp:
        """A builtin.module of that name: the entry function and the subgraph functions."""
        ...
