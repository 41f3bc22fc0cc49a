"""What came of a netlist's back end: success, or failures that say what, where, and how many bytes."""

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from hlo2tx8.errors import CompileError
from hlo2tx8.netlist.pipes.model import Core

FailureType: TypeAlias = Literal["Net2Pipe", "PipeGen", "BlobGen", "L1Size", "OverlaySize"]


@dataclass(frozen=True)
class StreamFailure:
    """`op` is the op or queue at fault, `core` one of its cores if it is about one. Of sizes `maximum_bytes` are allowed and
    `allocated_bytes` were asked for.
    """

    failure_type: FailureType
    message: str
    epoch: int
    graph: str
    op: str = ""
    core: Core | None = None
    maximum_bytes: int = 0
    allocated_bytes: int = 0

    @property
    def extra_bytes(self) -> int:
        return max(0, self.allocated_bytes - self.maximum_bytes)


@dataclass(frozen=True)
class CompileResult:
    """Of all temporal epochs; a failure ends its own epoch only."""

    failures: tuple[StreamFailure, ...] = ()

    @property
    def success(self) -> bool:
        return not self.failures

    def as_dict(self) -> dict[str, object]:
        """Plain values, as `compile_result.yaml` holds them."""
        rows = [
            {
                **{name: value for name, value in asdict(failure).items() if name != "core"},
                "device": failure.core.device if failure.core else None,
                "core": [failure.core.y, failure.core.x] if failure.core else None,
                "extra_bytes": failure.extra_bytes,
            }
            for failure in self.failures
        ]
        return {"success": self.success, "failures": rows}


class BackendError(CompileError):
    """A temporal epoch has no streams; `failure` says why. The code is E1014."""

    def __init__(self, failure: StreamFailure) -> None:
        super().__init__("E1014", f"{failure.failure_type}: epoch {failure.epoch}, graph {failure.graph}: {failure.message}")
        self.failure = failure
