"""The turns of a module's loops, counted where they are interpreted: a run ends at the same place at any time."""

from dataclasses import dataclass

from hlo2tx8.errors import DeviceError


@dataclass
class Turns:
    """Counts up to `most`; 0 is no limit."""

    most: int = 0
    taken: int = 0

    def take(self, origin: str = "") -> None:
        """One turn more, of the loop of that origin; DeviceError if there are too many."""
        self.taken += 1
        if 0 < self.most < self.taken:
            raise DeviceError("E1008", f"more than {self.most} turns of loops", origin=origin, hint="max_steps=N allows more")
