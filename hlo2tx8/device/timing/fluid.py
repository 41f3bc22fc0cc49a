"""What transfers share: each that is under way has a rate, which changes when one begins or ends."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, TypeAlias

from hlo2tx8.device.chip import Chip

SAME_CYCLES = 1e-6
Link: TypeAlias = "tuple[int, int]"
"""From a tile to the next one."""


@dataclass(slots=True, eq=False)
class Transfer:
    """`rest` bytes that each of `weight` tiles moves from cycle `flows_at` on, over these links of the NoC."""

    flows_at: float
    rest: float
    weight: int
    owner: Any
    links: tuple[Link, ...] = ()

    def __lt__(self, other: "Transfer") -> bool:
        return self.flows_at < other.flows_at


@dataclass
class Fluid(ABC):
    """`now` is how far its transfers have been followed."""

    chip: Chip
    now: float = 0.0
    flowing: list[Transfer] = field(default_factory=list[Transfer])
    coming: list[Transfer] = field(default_factory=list[Transfer])

    @abstractmethod
    def rates(self) -> Sequence[float]:
        """Bytes per cycle of each transfer that flows."""

    def add(self, transfer: Transfer) -> None:
        """A transfer whose bytes begin to flow no earlier than `now`."""
        heappush(self.coming, transfer)

    def next_event(self) -> float:
        """The next cycle in which transfers begin to flow or end."""
        begin = self.coming[0].flows_at if self.coming else inf
        if not self.flowing:
            return max(begin, self.now)
        end = self.now + min(t.rest / rate for t, rate in zip(self.flowing, self.rates(), strict=True))
        return end if end <= begin + SAME_CYCLES else begin

    def step(self) -> list[Transfer]:
        """Goes on to the next event; the transfers that end there."""
        until = self.next_event()
        rates = self.rates() if self.flowing else ()
        cycles, self.now = until - self.now, until
        done: list[Transfer] = []
        rest: list[Transfer] = []
        for transfer, rate in zip(self.flowing, rates, strict=True):
            transfer.rest -= cycles * rate
            # late enough, the clock does not tell what is left from nothing
            is_done = transfer.rest <= SAME_CYCLES * rate or until + transfer.rest / rate <= until
            (done if is_done else rest).append(transfer)
        self.flowing = rest
        while self.coming and self.coming[0].flows_at <= self.now + SAME_CYCLES:
            self.flowing.append(heappop(self.coming))
        return done

    def shift(self, cycles: float) -> None:
        """Moves all events so many cycles later."""
        self.now += cycles
        for transfer in self.coming:
            transfer.flows_at += cycles
        heapify(self.coming)

    def rate_of(self, transfer: Transfer) -> float:
        """Bytes per cycle of one transfer under way."""
        return self.rates()[self.flowing.index(transfer)]


@dataclass
class SharedDdr(Fluid):
    """Transfers share the DDR evenly, and none is faster than its tile's port.

    `samples` are (cycle, bytes per cycle of the chip from there on).
    """

    samples: list[tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        self._of_chip, self._of_port = self.chip.ddr_bytes_per_cycle, float(self.chip.cycles.dma_bytes_per_cycle)

    @property
    def rate(self) -> float:
        """Bytes per cycle of each transfer under way, of which there is at least one."""
        rate = self._of_chip / sum([t.weight for t in self.flowing])
        return rate if rate < self._of_port else self._of_port

    def rates(self) -> Sequence[float]:
        """Bytes per cycle of each transfer under way, all the same."""
        return [self.rate] * len(self.flowing)

    def next_event(self) -> float:
        """As they all are equally fast, the one with the least left ends first."""
        begin = self.coming[0].flows_at if self.coming else inf
        if not self.flowing:
            return begin if begin > self.now else self.now
        end = self.now + min([t.rest for t in self.flowing]) / self.rate
        return end if end <= begin + SAME_CYCLES else begin

    def step(self) -> list[Transfer]:
        """Goes on to the next event; returns the transfers that ended in it."""
        done = super().step()
        if self.samples is not None:
            rate = self.rates()[0] if self.flowing else 0.0
            self.flow_evenly(rate * sum(t.weight for t in self.flowing))
        return done

    def flow_evenly(self, bytes_per_cycle: float) -> None:
        """Notes the bytes per cycle that transfers move on average until the next sample."""
        if self.samples is not None and (not self.samples or self.samples[-1][1] != bytes_per_cycle):
            self.samples.append((self.now, bytes_per_cycle))
