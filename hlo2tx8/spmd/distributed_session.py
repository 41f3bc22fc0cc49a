"""`DistributedSession`: a module on the chips of several processes, without jax.

with DistributedSession("step.mlir", "127.0.0.1:9000", rank=0, size=2, secret="...") as session:
    results = session.run(x)   # of this process's chips
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo2tx8 import __version__
from hlo2tx8.errors import InputError
from hlo2tx8.options import Options
from hlo2tx8.runtime.pods.peer import Begun
from hlo2tx8.runtime.pods.pod import LOOPBACK, Membership, join
from hlo2tx8.runtime.pods.rendezvous import StoreAt
from hlo2tx8.spmd.chips import ChipsExecutable, compile_for_chips
from hlo2tx8.spmd.collectives import DeviceArrays
from hlo2tx8.spmd.pod_launch import PodProgram, fingerprint_of


class DistributedSession:
    """A module for several chips, of which each of `size` processes has as many, compiled in each of them.

    source, options, args, format, replicas, partitions: as of hlo2tx8.compile. address: `host:port`, where process 0 can be
    reached. rank: this process's number. secret: a text that all processes know, and nobody else. interface: where the others
    reach this process. arrival, patience: seconds that processes are waited for in the beginning, and in a run where one does
    nothing. PodError names a process that does not come or differs. All processes must run the same number of times, and one
    thread at a time.
    """

    def __init__(
        self,
        source: object,
        address: str,
        *,
        rank: int,
        size: int,
        secret: str,
        options: Options | None = None,
        args: Sequence[object] | None = None,
        format: str = "",
        replicas: int = 0,
        partitions: int = 0,
        interface: str = LOOPBACK,
        arrival: float = 30.0,
        patience: float = 600.0,
    ) -> None:
        if not 0 <= rank < size or not secret:
            raise InputError("E1004", f"process {rank} of {size}; a rank is from 0 to size - 1, and a secret not empty")
        found = compile_for_chips(source, options or Options(), args=args, format=format, replicas=replicas, partitions=partitions)
        if not isinstance(found, ChipsExecutable) or found.num_chips % size:
            count = found.num_chips if isinstance(found, ChipsExecutable) else 1
            raise InputError("E1004", f"the module is for {count} chips, which {size} processes cannot share evenly")
        self.executable = found
        each = found.num_chips // size
        self.chips = range(rank * each, (rank + 1) * each)
        chip = found.local.chip
        equal = {"hlo2tx8": __version__, "chip description": str(chip)}
        own = Membership(rank, size, each, interface, equal, chip.ddr_bytes, arrival, patience)
        self._store = StoreAt(address, secret, rank, arrival)
        try:
            self.pod = join(self._store, own, "session")
        except BaseException:
            self._store.close()
            raise
        owners = tuple(number // each for number in range(found.num_chips))
        self._program = PodProgram(self.pod, owners, Begun(fingerprint_of(found.local, owners), found.local.name))

    def run(self, *arrays: object) -> DeviceArrays:
        """The results of each chip of this process. Arrays are those of ChipsExecutable.execute, the same in all processes but for
        the parts that no chip here takes. PodError names a process that cannot go on; InputError and DeviceError as there.
        """
        module, signature = self.executable.module, self.executable.signature
        groups = module.num_groups
        given: list[Any] = [np.asarray(array) for array in arrays]
        if groups > 1 and any(not array.ndim or array.shape[0] != groups for array in given):
            raise InputError("E1004", f"arrays need a leading dimension of {groups}, one part for each")
        wholes = [[array[i] for array in given] for i in range(groups)] if groups > 1 else [given]
        parts = module.parts_of([list(signature.check(own)) for own in wholes])
        return self.executable.local.launch_here({chip: parts[chip] for chip in self.chips}, None, self._program)

    def close(self) -> None:
        """Leaves the other processes; what they still run with this one fails."""
        self.pod.close()
        self._store.close()

    def __enter__(self) -> "DistributedSession":
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is not None:
            self.pod.leave(f"{type(error).__name__}: {error}")
        self.close()
