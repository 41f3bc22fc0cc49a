"""Bytes over links of the mesh are those of the packets that pass them, also where turns of a loop are left out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import hlo2tx8
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.native.loader import load
from hlo2tx8.device.timing.bundle import Issued
from hlo2tx8.device.timing.fluid import Link
from hlo2tx8.device.timing.model import model
from hlo2tx8.device.timing.timeline import Timeline
from hlo2tx8.reports.timeline import ModelledRun

GEMM = """HloModule gemm

ENTRY main {
  x = bf16[1024,2048] parameter(0)
  w = bf16[2048,1024] parameter(1)
  ROOT y = bf16[1024,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@dataclass
class Packets(Timeline):
    """Counts the bytes that packets take over each link."""

    links: Counter[Link] = field(default_factory=Counter[Link])

    def instruction(self, tiles: Sequence[int], issued: Issued) -> None:
        packet = issued.shape.work.packet
        if packet is not None:
            for link in {link for way in packet.ways(tiles[0], load_chip()) for link in way}:
                self.links[link] += packet.bytes


def test_links_carry_what_packets_take() -> None:
    if isinstance(load(), str):
        pytest.skip("no native core on this machine")
    executable: Any = hlo2tx8.compile(GEMM)
    packets = Packets(1_000_000)
    model(executable.program, executable.chip, packets)
    assert packets.links
    wanted = [[*link, moved] for link, moved in sorted(packets.links.items())]
    assert ModelledRun.of(executable).bytes_by_link(executable.chip.mesh[-1]) == wanted
