"""Infeed and outfeed: arrays that the host hands to a running program, and takes from it, in the order of the program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import TupleType
from xdsl.ir import Operation

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.tokens import EMPTY
from hlo2tx8.hlo.signature import Port, port_of

Array = npt.NDArray[Any]
Infeed = Callable[[int, int, Sequence[Port]], Sequence[Array]]
"""The arrays of the infeed number n (0, 1, ... in the order in which it happens) of a device: infeed(device, n, ports)."""


def infeed_of(arrays: Sequence[Sequence[Array]]) -> Infeed:
    """An infeed that gives every device the same arrays, those of one infeed after the other; InputError when they end."""

    def take(device: int, number: int, ports: Sequence[Port]) -> Sequence[Array]:
        if number >= len(arrays):
            raise InputError("E1004", f"infeed {number} of chip {device} finds nothing: there are arrays for {len(arrays)}")
        return arrays[number]

    return take


@dataclass
class Feeds:
    """What is fed to a run and what it feeds back: for each device, the arrays of each outfeed."""

    infeed: Infeed = field(default_factory=lambda: infeed_of(()))
    outfed: dict[int, list[list[Array]]] = field(default_factory=dict[int, list[list[Array]]])
    taken: dict[int, int] = field(default_factory=dict[int, int])

    def start(self, infeed: Infeed | None) -> None:
        """Before a run."""
        self.infeed = infeed or infeed_of(())
        self.outfed, self.taken = {}, {}

    def take(self, device: int, ports: Sequence[Port]) -> list[Array]:
        """The arrays of a device's next infeed; InputError if they are others than the program takes."""
        number = self.taken.get(device, 0)
        self.taken[device] = number + 1
        arrays = [np.asarray(array) for array in self.infeed(device, number, ports)]
        found = [Port(array.shape, array.dtype.name) for array in arrays]
        if [(p.shape, p.dtype) for p in ports] != [(p.shape, p.dtype) for p in found]:
            takes, got = (", ".join(map(str, each)) or "nothing" for each in (ports, found))
            raise InputError("E1004", f"infeed {number} takes {takes}, got {got}")
        return arrays

    def give(self, device: int, arrays: Sequence[Array]) -> None:
        """The arrays of a device's outfeed."""
        self.outfed.setdefault(device, []).append(list(arrays))


def fed_ports(op: Operation) -> list[Port]:
    """What an infeed gives, without its token."""
    return [port_of(result.type) for result in op.results if result.type != EMPTY and not isinstance(result.type, TupleType)]


def feed(op: Operation, feeds: Feeds) -> Callable[[dict[int, list[Any]]], dict[int, list[Any]]]:
    """The function of the operands on every device that an infeed or outfeed is; tokens are arrays without elements."""
    token = np.zeros(0, np.bool_)
    if op.name == "stablehlo.outfeed":
        count = sum(operand.type != EMPTY for operand in op.operands)

        def give(arrays: dict[int, list[Any]]) -> dict[int, list[Any]]:
            for device, own in arrays.items():
                feeds.give(device, own[:count])
            return {device: [token] for device in arrays}

        return give
    ports = fed_ports(op)
    return lambda arrays: {device: [*feeds.take(device, ports), token] for device in arrays}
