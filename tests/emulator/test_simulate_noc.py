"""Ways through the mesh, and links that packets share: the model's fluid against the simulation's."""

from heapq import heappop, heappush
from itertools import count

import numpy as np
import pytest
from simulate_noc import Noc

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.timing.fluid import Transfer
from hlo2tx8.device.timing.noc import Packet, SharedNoc, way

CHIP = load_chip()
BYTES_PER_CYCLE = CHIP.cycles.dte_bytes_per_cycle
Sent = tuple[float, int, Packet]
"""(cycle, tile, what)."""


def arrivals_of_fluid(sent: list[Sent]) -> list[float]:
    noc = SharedNoc(CHIP)
    for number, (cycle, tile, packet) in enumerate(sent):
        links = tuple(dict.fromkeys(link for links in packet.ways(tile, CHIP) for link in links))
        noc.add(Transfer(cycle, float(packet.bytes), 1, number, links))
    found = [0.0] * len(sent)
    while noc.flowing or noc.coming:
        for transfer in noc.step():
            found[transfer.owner] = noc.now
    return found


def arrivals_of_simulation(sent: list[Sent]) -> list[float]:
    events: list[tuple[float, int, object]] = []
    numbers, found = count(), [0.0] * len(sent)
    noc = Noc(CHIP, lambda cycles, happen: heappush(events, (noc.now + cycles, next(numbers), happen)))

    def arrive(number: int) -> None:
        found[number] = noc.now

    for number, (cycle, tile, packet) in enumerate(sent):
        begin = lambda number=number, tile=tile, packet=packet: noc.flow(tile, packet, lambda: arrive(number))
        heappush(events, (cycle, next(numbers), begin))
    while events:
        noc.now, _, happen = heappop(events)
        happen()
    return found


def send(target: int, size: int = 6400) -> Packet:
    return Packet((target,), False, size)


def test_ways_go_along_the_row_first() -> None:
    assert way(0, 5, 4) == ((0, 1), (1, 5))
    assert way(5, 0, 4) == ((5, 4), (4, 0))
    assert way(7, 7, 4) == ()
    assert Packet((5,), True, 1).ways(0, CHIP) == [way(5, 0, 4)]
    assert Packet((5, 99), False, 1).ways(0, CHIP) == [way(0, 5, 4)]


def test_packets_that_share_no_link_do_not_mind_each_other() -> None:
    assert arrivals_of_fluid([(0.0, t, send(t + 4)) for t in range(12)]) == [6400 / BYTES_PER_CYCLE] * 12
    assert arrivals_of_fluid([(0.0, 0, send(1)), (0.0, 1, send(0))]) == [6400 / BYTES_PER_CYCLE] * 2


def test_a_link_is_shared_while_both_are_on_it() -> None:
    """Tile 0's packet comes half way through tile 1's: half rate until that is through, then alone."""
    assert arrivals_of_fluid([(0.0, 1, send(2)), (100.0, 0, send(2))]) == [300.0, 400.0]


def test_a_packet_for_many_takes_each_link_once() -> None:
    everywhere = Packet(tuple(range(1, 16)), False, 3200)
    assert arrivals_of_fluid([(0.0, 0, everywhere)]) == [3200 / BYTES_PER_CYCLE]


@pytest.mark.parametrize("seed", range(30))
def test_drawn_packets_arrive_as_in_the_simulation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sent: list[Sent] = []
    for _ in range(int(rng.integers(1, 24))):
        tile = int(rng.integers(16))
        others = tuple(int(t) for t in rng.permutation([t for t in range(16) if t != tile])[: int(rng.integers(1, 4))])
        is_pull = len(others) == 1 and bool(rng.random() < 0.4)
        sent.append((float(rng.integers(0, 500)), tile, Packet(others, is_pull, int(rng.integers(1, 300)) * 64)))
    assert arrivals_of_fluid(sent) == pytest.approx(arrivals_of_simulation(sent), abs=1e-3)
