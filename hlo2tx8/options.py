"""Options of a compilation: an immutable object handed down, never the environment."""

import enum
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

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
    the number tells the modules of one run apart. explain: say why things were fused and lowered so.

    timeout: seconds after which a run ends with a DeviceError; 0 lets it go on for ever.
    fill_elided_constants: elements of constants that HLO text has as `{...}`, `random` (the same in every run) or `zeros`.

    matmul_precision: that of f32 dots and convolutions of which the module says DEFAULT or nothing: `default` one pass of TF32,
    `high` three passes of BF16, `highest` six.
    hlo_passes: run the passes before fusion that only make a program faster; without them instructions stay as they were written.

    InputError E1004 names a value that is none of an option's.
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
    dump_number: int = 0
    explain: bool = False
    fill_elided_constants: Filling = "random"
    matmul_precision: Precision = "default"
    timeout: float = 0.0
    hlo_passes: bool = True

    def __post_init__(self) -> None:
        words: tuple[tuple[str, str, tuple[str, ...]], ...] = (
            ("mode", self.mode, get_args(Mode)),
            ("search", self.search, get_args(Search)),
            ("filling", self.fill_elided_constants, get_args(Filling)),
            ("precision", self.matmul_precision, get_args(Precision)),
        )
        for what, word, known in words:
            if word not in known:
                raise InputError("E1004", f"no {what} {word!r}", hint=", ".join(known))
        for name in ("threads", "step_elements", "dump_number", "timeout"):
            if not getattr(self, name) >= 0:
                raise InputError("E1004", f"{name} is {getattr(self, name)}", hint="0 or more")
        try:
            re.compile(self.dump_pass_re)
        except re.error as error:
            raise InputError("E1004", f"{self.dump_pass_re!r} is not a regular expression: {error}") from None
