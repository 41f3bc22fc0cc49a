"""What kernels were found to take, for as long as the process lives: compiled again, they need not be lowered to be compared.

A program is compiled again when its IR is asked for, at each level that runs it, and by each `jit` that has the same kernels.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock

from hlo2tx8.schedule.plan import Feasibility

MOST_KERNELS = 256
"""That are remembered; the one that was put first is forgotten first."""


@dataclass
class KnownKernels:
    """What kernels take, by all that decides it."""

    found: dict[Hashable, Feasibility] = field(default_factory=dict[Hashable, Feasibility])
    lock: Lock = field(default_factory=Lock)

    def get(self, key: Hashable, find: Callable[[], Feasibility]) -> Feasibility:
        """What is known, or else found now. What `find` raises is not remembered."""
        known = self.found.get(key)
        if known is not None:
            return known
        known = find()
        with self.lock:
            if len(self.found) >= MOST_KERNELS:
                del self.found[next(iter(self.found))]
            self.found[key] = known
        return known


KNOWN = KnownKernels()
"""Those of this process."""
