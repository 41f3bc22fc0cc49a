"""The DDR as a fluid: transfers under way share its bandwidth evenly, and none is faster than its tile's port."""

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from hlo2tx8.device.chip import Chip

SAME_CYCLES = 1e-6


@dataclass(slots=True, eq=False)
class Transfer:
    """`rest` bytes that each of `weight` tiles moves from cycle `flows_at` on."""

    flows_at: float
    rest: float
    weight: int
    owner: Any

    def __lt__(self, other: "Transfer") -> bool:
        return self.flows_at < other.flows_at


@dataclass
class SharedDdr:
    """`now` is how far the transfers have been followed; `samples` are (cycle, bytes per cycle of the chip) from there on."""

    chip: Chip
    now: float = 0.0
    flowing: list[Transfer] = field(default_factory=list[Transfer])
    coming: list[Transfer] = field(default_factory=list[Transfer])
    samples: list[tuple[float, float]] | None = None

    def add(self, transfer: Transfer) -> None:
        """A transfer whose bytes begin to flow no earlier than `now`."""
        heappush(self.coming, transfer)

    @property
    def is_idle(self) -> bool:
        return not (self.flowing or self.coming)

    @property
    def rate(self) -> float:
        """Bytes per cycle of each transfer that flows."""
        total = sum(t.weight for t in self.flowing)
        return min(self.chip.ddr_bytes_per_cycle / total, self.chip.cycles.dma_bytes_per_cycle)

    def advance(self) -> list[Transfer]:
        """Goes on to the next cycle in which transfers end; `now` is that cycle."""
        while True:
            if not self.flowing:
                self._sample(0.0)
                self.now = max(self.now, self.coming[0].flows_at)
            while self.coming and self.coming[0].flows_at <= self.now + SAME_CYCLES:
                self.flowing.append(heappop(self.coming))
            rate = self.rate
            self._sample(rate * sum(t.weight for t in self.flowing))
            until = self.now + min(t.rest for t in self.flowing) / rate
            is_ending = not self.coming or until <= self.coming[0].flows_at + SAME_CYCLES
            until = until if is_ending else self.coming[0].flows_at
            moved = (until - self.now) * rate
            self.now = until
            for transfer in self.flowing:
                transfer.rest -= moved
            if is_ending:
                done = [t for t in self.flowing if t.rest <= SAME_CYCLES * rate]
                self.flowing = [t for t in self.flowing if t.rest > SAME_CYCLES * rate]
                if not (self.flowing or self.coming):
                    self._sample(0.0)
                return done

    def shift(self, cycles: float) -> None:
        """Everything happens that much later."""
        self.now += cycles
        for transfer in self.coming:
            transfer.flows_at += cycles
        heapify(self.coming)

    def flow_evenly(self, bytes_per_cycle: float) -> None:
        """Until the next sample transfers move that much on average."""
        self._sample(bytes_per_cycle)

    def _sample(self, bytes_per_cycle: float) -> None:
        if self.samples is not None and (not self.samples or self.samples[-1][1] != bytes_per_cycle):
            self.samples.append((self.now, bytes_per_cycle))
