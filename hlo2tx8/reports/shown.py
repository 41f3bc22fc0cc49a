"""What the compiler shows while it lowers a module: the text of every kernel at every level, and the graph of the fused module."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.dialects.launch import KernelOp
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.options import Level
from hlo2tx8.reports.graph import FusedGraph
from hlo2tx8.reports.printed import text_of
from hlo2tx8.runtime.executable import Executable

INNER = "  builtin.module @"


@dataclass
class Shown:
    """Text of the module at HLO; of each kernel by its name and level, from LOOPS to SCHEDULED; the fused module's graph, and the
    kernels that @main launches, in order. Missing is what nobody showed.
    """

    hlo: str = ""
    kernels: dict[str, dict[Level, str]] = field(default_factory=lambda: {})
    graph: FusedGraph = field(default_factory=FusedGraph)
    launched: tuple[str, ...] = ()

    def __call__(self, level: Level, name: str, module: ModuleOp) -> None:
        """Look at a module, or a kernel, at a level."""
        if level is Level.HLO:
            self.hlo = text_of(module)
        elif level is Level.FUSED:
            self.graph = FusedGraph.of(module)
        elif name:
            self.kernels.setdefault(name, {})[level] = text_of(module)
        elif level is Level.LOOPS:
            self.launched = tuple(
                op.callee.string_value() for f in program_functions(module) for op in f.walk() if isinstance(op, KernelOp)
            )

    @property
    def fused(self) -> list[int]:
        """The kernel of the graph that each launched one was made from, by number; -1 where that cannot be told. Kernels that only
        a loop's condition has are not launched where its turns are known.
        """
        names = [_plain(name) for name, _ in self.graph.kernels]
        found = [-1] * len(self.launched)
        launched = list(map(_plain, self.launched))
        for _, begin, end, first, last in SequenceMatcher(None, launched, names, autojunk=False).get_opcodes():
            if end - begin == last - first:  # of other names are fusions equal to earlier ones, whose kernel they launch
                found[begin:end] = range(first, last)
        return found

    @staticmethod
    def of(executable: Executable, parse: Callable[[str], ModuleOp]) -> "Shown":
        """What the texts of an executable say, which `parse` reads; of one from a file nothing is compiled again."""
        shown = Shown(executable.as_text(Level.HLO))
        shown(Level.FUSED, "", parse(executable.as_text(Level.FUSED)))
        for level in (level for level in Level if Level.LOOPS <= level < Level.PROGRAM):
            text = executable.as_text(level)
            for name, kernel in kernels_in(text).items():
                shown.kernels.setdefault(name, {})[level] = kernel
            if level is Level.LOOPS and text.count("\n  func.func ") == 1:  # nobody says the order of several
                shown.launched = tuple(
                    line.partition("launch.kernel @")[2].partition("(")[0]
                    for line in text.splitlines()
                    if "launch.kernel @" in line
                )
        return shown


def _plain(name: str) -> str:
    """A fusion's name without what tells it from others of the same name."""
    return re.sub(r"([_.]\d+)+$", "", re.sub(r"\W", "_", name))


def kernels_in(text: str) -> dict[str, str]:
    """The kernel modules in the text of a module, by name."""
    found: dict[str, list[str]] = {}
    own: list[str] | None = None
    for line in text.splitlines():
        if line.startswith(INNER):
            own = found[line.removeprefix(INNER).partition(" ")[0].strip('"')] = []
        if own is not None:
            own.append(line[2:])
        if line.rstrip() == "  }":
            own = None
    return {name: "\n".join(lines) for name, lines in found.items()}
