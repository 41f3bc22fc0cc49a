"""Pages of programs: what making one takes beyond compiling, and how large it is.

    python -m benchmarks.report [FILE ...]

Without files gelu bf16[6,512,4096], the zoo's medium BERT, and ResNet-50 with the channels of its paper, 8 x 224 x 224.
Seconds are of the wall and, since other things may run, of the processor. What is printed of the IR while the module is
compiled belongs to the page and is in both.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import jax
from xdsl.dialects.builtin import ModuleOp

from benchmarks.measure import table
from benchmarks.models import zoo
from hlo2tx8.options import Level, Options
from hlo2tx8.reports.facts import facts_of
from hlo2tx8.reports.page import page_of
from hlo2tx8.reports.shown import Shown
from hlo2tx8.runtime.compile import compile_source

GELU = Path(__file__).parents[1] / "hlo_samples" / "elementwise" / "gelu_bf16.hlo"
MEDIUM_CHANNELS, MEDIUM_CLASSES = 32, 100
"""Of the zoo's medium ResNet-50."""


def sources(files: list[str]) -> Iterator[tuple[str, object]]:
    """Names and what is compiled."""
    yield from ((Path(file).name, file) for file in files)
    if not files:
        yield "gelu bf16[6,512,4096]", str(GELU)
        jit = cast(Any, jax).jit
        bert, resnet = zoo.bert(True), zoo.resnet50(True)
        yield "bert", jit(bert.forward).lower(bert.parameters, *bert.inputs)
        images = jax.ShapeDtypeStruct((8, 224, 224, 3), resnet.inputs[0].dtype)
        yield "resnet50, 8 images", jit(resnet.forward).lower(jax.tree.map(_whole, resnet.parameters), images)


def _whole(parameter: jax.Array) -> jax.ShapeDtypeStruct:
    """A parameter of the medium ResNet-50, which has half the channels and a tenth of the classes, in its full size."""
    shape = [10 * size if size == MEDIUM_CLASSES else 2 * size if size >= MEDIUM_CHANNELS else size for size in parameter.shape]
    return jax.ShapeDtypeStruct(shape, parameter.dtype)


class Clock:
    """Seconds of the wall and the processor that several stretches took together."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0

    def take(self, work: Callable[[], object]) -> None:
        """Add what some work takes."""
        wall, processor = time.perf_counter(), time.process_time()
        work()
        self.wall, self.processor = self.wall + time.perf_counter() - wall, self.processor + time.process_time() - processor


def row(name: str, source: object) -> tuple[str, ...]:
    """Seconds beyond compiling, seconds in all, megabytes."""
    beyond, whole, shown = Clock(), Clock(), Shown()
    found: list[str] = []

    def show(level: Level, kernel: str, module: ModuleOp) -> None:
        beyond.take(lambda: shown(level, kernel, module))

    def make() -> None:
        executable = compile_source(source, Options(explain=True), show=show)
        beyond.take(lambda: found.append(page_of([facts_of(executable, shown, name)])))

    whole.take(make)
    return (name, f"{beyond.wall:.1f}", f"{beyond.processor:.1f}", f"{whole.wall:.1f}", f"{len(found[0]) / 1e6:.2f}")


def main() -> int:
    """Print a row per page."""
    rows = [row(name, source) for name, source in sources(sys.argv[1:])]
    print(table(("page", "s beyond compiling", "of the processor", "s with compiling", "MB"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
