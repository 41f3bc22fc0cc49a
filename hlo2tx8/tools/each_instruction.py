"""`hlo2tx8 run --compare_each` and `--dump_results`: the value of every instruction of @main, those of its fusions too.

The module is run once with every value as a result, so that each is what the instructions before it make of the inputs; what would
be fused without that may not be. Instructions in loops and branches have no value outside of them.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.dialects.hlo import FusionOp, origin
from hlo2tx8.dialects.layout import is_tensor
from hlo2tx8.errors import InputError, writing
from hlo2tx8.hlo.error_bounds.elementwise import last_place
from hlo2tx8.hlo.module import find_main
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.hlo.signature import Port
from hlo2tx8.options import Options
from hlo2tx8.tools.bisect.part import ModulePart
from hlo2tx8.tools.compare import compare, differences, is_inexact
from hlo2tx8.tools.platforms import Source, execute
from hlo2tx8.tools.reference import Reference
from hlo2tx8.tools.table import Table

Array = npt.NDArray[Any]
SHOWN = 20
"""Instructions that `worst` lists."""


@dataclass(frozen=True)
class EachInstruction:
    """A module that returns the value of every instruction whose name or source line fits a pattern, and its inputs."""

    part: ModulePart
    names: tuple[str, ...]

    @staticmethod
    def of(module: ModuleOp, arrays: Sequence[Array], pattern: str = "") -> "EachInstruction":
        """InputError if there is no such instruction."""
        copy = module.clone()
        _inline_fusions(copy)
        whole = ModulePart.of(copy, arrays)
        named = [(f"{number:04} {_name(op)}", r) for number, op in enumerate(whole.instructions) for r in op.results]
        chosen = [(name, r) for name, r in named if is_tensor(r.type) and re.search(pattern, name)]
        if not chosen:
            raise InputError("E1004", f"no instruction's name or source line has {pattern!r}" if pattern else "no instruction")
        part = whole.cut([r for _, r in chosen], (), whole.given)
        return EachInstruction(part, tuple(name for name, _ in chosen))

    def worst(self, actual: Sequence[Array], max_steps: int = 0) -> tuple[str, bool]:
        """A table of the instructions that are farthest from the evaluator, in units of the last place, and if all are as near as
        they have to be.
        """
        reference = Reference.of(self.part.module(), self.part.arrays, max_steps)
        rows: list[tuple[float, tuple[str, ...]]] = []
        for name, a, e, limit in zip(self.names, actual, reference.expected, reference.allowed, strict=True):
            error = differences(a, e)
            ulps = float(np.max(_in_last_places(error, e), initial=0.0))
            wrong = compare([a], [e], [limit])
            verdict = "agrees"
            if wrong:
                element = wrong[0].elements[0]
                verdict = f"WRONG at {list(element.index)}: {element.actual} for {element.expected}"
            count = f"{np.count_nonzero(error)}/{error.size}"
            rows.append((np.inf if wrong else ulps, (name, str(Port(e.shape, e.dtype.name)), count, f"{ulps:.3g}", verdict)))
        rows.sort(key=lambda row: -row[0])
        table = Table(("instruction", "result", "differ", "worst ulp", "verdict"), [row for _, row in rows[:SHOWN]])
        return table.text(is_terminal=False), not any(row[-1] != "agrees" for _, row in rows)

    def dump(self, actual: Sequence[Array], folder: Path) -> None:
        """One .npy file for each, named as its instruction; floats that numpy does not know as float32, which holds them."""
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for name, array in zip(self.names, actual, strict=True):
            is_known = array.dtype.kind in "fciub"
            wide = array if is_known else array.astype(np.float32 if is_inexact(array.dtype) else np.int8)
            file = folder / (re.sub(r"[^\w.-]+", "_", name) + ".npy")
            with writing(file):
                np.save(file, wide)


def run_each(
    module: ModuleOp, arrays: Sequence[Array], platform: str, options: Options, args: Any, folder: Path | None
) -> tuple[bool, str]:
    """Runs the module with every value as a result, as the flags of `run` say, and writes them into a folder if there is one; if
    that is as it should be, and a note.
    """
    each = EachInstruction.of(module, arrays, args.filter)
    actual = execute(platform, Source("each instruction", each.part.module), each.part.arrays, options)
    if folder is not None:
        each.dump(actual, folder)
        print(f"{len(actual)} results: {folder}", file=sys.stderr)
    if not args.compare_each:
        return True, ""
    table, agreed = each.worst(actual, options.max_steps)
    print(table, end="")
    return agreed, "" if agreed else "an instruction is off by more than it may be"


def _name(op: Operation) -> str:
    """The op's name, its source line without the folder, and the instruction's name."""
    return f"{op.name.partition('.')[2]} {origin(op).rpartition('/')[2]}".strip()


def _inline_fusions(module: ModuleOp) -> None:
    """Puts the instructions of fusions directly into @main."""
    for op in tuple(find_main(module).body.block.ops):
        if isinstance(op, FusionOp):
            body = op.body.block
            last = terminator_of(body)
            results = tuple(last.operands)
            last.detach()
            last.erase()
            Rewriter.inline_block(body, InsertPoint.before(op), op.operands)
            Rewriter.replace_op(op, [], results)


def _in_last_places(error: Array, expected: Array) -> Array:
    if not is_inexact(expected.dtype):
        return error
    with np.errstate(all="ignore"):
        return np.where(error > 0, error / last_place(expected), 0.0)
