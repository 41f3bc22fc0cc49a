"""Finds where a module first goes wrong: its levels in order, then the emulator's modes, each compared with the reference."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.compiler.driver import lower_stages
from hlo2tx8.compiler.pipeline import PIPELINE
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import RUNS, LevelRun, each_run, run_lowered
from hlo2tx8.tools.reference import Reference

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Wrong:
    """The first run with a wrong result or an error. Runs of equal `kind` are taken for the same defect while the module is made
    smaller.
    """

    run: LevelRun
    kind: str
    message: str

    def is_like(self, other: "Wrong | None") -> bool:
        """True if both look like the same defect."""
        return other is not None and (self.run, self.kind) == (other.run, other.kind)


def first_wrong(module: ModuleOp, arrays: Sequence[Array], options: Options, runs: Sequence[LevelRun] = RUNS) -> Wrong | None:
    """The first of the runs whose results differ from the reference, None if none does; Hlo2tx8Error if the reference itself
    fails.
    """
    reference = Reference.of(module, arrays, options.max_steps)
    results = each_run(module.clone, replace(options, dump_dir=None, explain=False), arrays, runs)
    for run in runs:
        try:
            actual = next(results)
        except Hlo2tx8Error as error:
            return Wrong(run, f"error {error.code}", str(error))
        except Exception as error:
            return Wrong(run, f"crash {type(error).__name__}", f"{type(error).__name__}: {error}")
        if mismatches := reference.mismatches(actual):
            return Wrong(run, "wrong answer", mismatches[0].line)
    return None


def first_wrong_pass(module: ModuleOp, arrays: Sequence[Array], options: Options, wrong: Wrong) -> str:
    """The pass after which the IR first gives a wrong answer; all passes of the level if the IR between them cannot be run."""
    reference = Reference.of(module, arrays, options.max_steps)
    names = [stage.step.name for stage in PIPELINE if stage.after is wrong.run.level]
    if wrong.kind == "wrong answer" and wrong.run.level < Level.PROGRAM:
        with contextlib.suppress(Hlo2tx8Error):
            for stage, lowered in lower_stages(module.clone(), replace(options, until=wrong.run.level, dump_dir=None)):
                if _is_wrong(lowered, stage.after, options, arrays, reference):
                    return f"after pass {stage.step.name}"
    match wrong.run.level, wrong.run.mode:
        case Level.PROGRAM, "definition":
            return f"after {', '.join(names)}, encoding or linking"
        case Level.PROGRAM, _:
            return "the program is right by definition: a defect of the emulator, or of the order of its instructions"
        case _:
            return f"after one of {', '.join(names)}"


def _is_wrong(module: ModuleOp, level: Level, options: Options, arrays: Sequence[Array], reference: Reference) -> bool:
    """Does the IR after a pass give a wrong answer? Between two levels there may be IR that no interpreter knows."""
    try:
        actual = run_lowered(module.clone(), level, options, arrays)
    except Exception:
        return False
    return bool(reference.mismatches(actual))
