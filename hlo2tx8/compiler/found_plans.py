"""What full searches have found, by content."""

from dataclasses import dataclass, field

from hlo2tx8.emitters.search_kernels import Found


@dataclass
class Remembered:
    """Of one compilation, in memory."""

    found: dict[str, Found] = field(default_factory=dict[str, Found])

    def get(self, key: str) -> Found | None:
        return self.found.get(key)

    def put(self, key: str, found: Found) -> None:
        self.found[key] = found
