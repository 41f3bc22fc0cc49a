"""Options of a compilation: an immutable object handed down, never the environment."""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hlo2tx8.errors import InputError

Mode = Literal["fast", "strict", "definition"]
Filling = Literal["random", "zeros"]
Search = Literal["fast", "full"]
Precision = Literal["default", "high", "highest"]


@enum.unique
class Level(enum.IntEnum):
    """The levels of the pipeline in order; every one of them can be printed and run."""

    HLO = 0
    FUSED = 1
    LOOPS = 2
    FLAT = 3
    VECTOR = 4
    SCHEDULED = 5
    PROGRAM = 6

    @classmethod
    def parse(cls, text: str) -> "Level":
        """The level of that name, in any case; ValueError lists the names."""
        try:
            return cls[text.upper()]
        except KeyError:
            names = ", ".join(level.name.lower() for level in cls)
            raise ValueError(f"unknown level {text!r}; the levels are {names}") from None


@dataclass(frozen=True)
class Options:
    """How to compile and run.

    chip: a chip description (YAML) instead of the built-in one.
    mode: `fast` native core; `strict` with poison, late DMA and race checks; `definition` numpy.
    threads: host threads that run tiles; 0 lets the emulator choose.
    step_elements: output elements one tile works on per step of the time loop; 0 lets the schedule choose.
    search: `fast` takes the first plan of a kernel, by estimate, that fits; `full` lowers and times many, and takes the fastest.
    search_cache: folder in which what full searches find is kept for other compilations; None for none.
    until: last level to lower to. verify: run the full IR verifier after each stage (levels always are).
    dump_dir, dump_pass_re, dump_number: write IR before each pass, `fusion-emitter` selects per-kernel logs;
    the number tells the modules of one run apart. dump_emitter_re: the logs of kernels whose emitter's name has this in it, or of
    all if `mlir-fusion` has it. explain: say why things were fused and lowered so.

    timeout: seconds after which a run ends with a DeviceError; 0 lets it go on for ever. max_steps: the same in turns of loops, for
    each tile those of all its loops together, so that it ends at the same place at any time and in every mode.
    fill_elided_constants: elements of constants that HLO text has as `{...}`, `random` (the same in every run) or `zeros`.

    matmul_precision: that of f32 dots and convolutions of which the module says DEFAULT or nothing: `default` one pass of TF32,
    `high` three passes of BF16, `highest` six.
    hlo_passes: run the passes before fusion that only make a program faster; without them instructions stay as they were written.

    reassociate: also those that round in another order where that is no less precise: a product with a softmax is divided by its
    sums, the queries are scaled instead of the scores, a GELU is computed as a ReLU less a rest, a variance is summed in parts, and
    a product's offset is added behind its scale (in BF16 up to 1.6 times the error where a mean is many deviations from zero).

    keep: names of coarse ops, with commas between them, that stay one op where one kernel can compute them: composites, custom
    calls, and what is recognised (softmax, gelu, layer_norm ...). Those that have a registered kernel are kept too.

    InputError E1004 names a value that is none of an option's: of another type, another word, a negative number or NaN.
    """

    chip: Path | None = None
    mode: Mode = "fast"
    threads: int = 0
    step_elements: int = 0
    search: Search = "fast"
    search_cache: Path | None = None
    until: Level = Level.PROGRAM
    verify: bool = False
    dump_dir: Path | None = None
    dump_pass_re: str = ""
    dump_emitter_re: str = ""
    dump_number: int = 0
    explain: bool = False
    fill_elided_constants: Filling = "random"
    matmul_precision: Precision = "default"
    timeout: float = 0.0
    max_steps: int = 0
    hlo_passes: bool = True
    reassociate: bool = True
    keep: str = ""

    def __post_init__(self) -> None:
        for name, kind in _kinds().items():
            _check(name, kind, getattr(self, name))
        for pattern in (self.dump_pass_re, self.dump_emitter_re):
            check_pattern(pattern)


@cache
def _kinds() -> Mapping[str, Any]:
    return get_type_hints(Options)


def _check(name: str, kind: Any, value: object) -> None:
    """InputError if the option of that name and type cannot have the value."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InputError("E1004", f"no {name} {value!r}", hint=", ".join(get_args(kind)))
        return
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind, int) if kind is float else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        raise InputError("E1004", f"{name} is {value!r}", hint=f"{' or '.join(each.__name__ for each in kinds)}")
    if isinstance(value, int | float) and not value >= 0:  # NaN neither
        raise InputError("E1004", f"{name} is {value}", hint="0 or more")


def check_pattern(pattern: str) -> None:
    """InputError if that is not a regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise InputError("E1004", f"{pattern!r} is not a regular expression: {error}") from None
