"""Dumps: what the IR looked like before each pass, written before the pass that could fail.

With DIR given, `module_0000.gelu.03.before-inline.mlir` and one `.after-<last pass>.mlir`. Where the regular expression
selects `fusion-emitter`, or another one the name of its emitter, also `module_0000.gelu.<kernel>.mlir-passes.log`: one kernel
through all passes below it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.emitters import EMITTED, EMITTERS
from hlo2tx8.errors import writing
from hlo2tx8.options import Options

EMITTER = "fusion-emitter"
ANY_EMITTER = "mlir-fusion"
"""What XLA calls the emitters that write fusions as MLIR: all of ours."""


def emitter_names() -> tuple[str, ...]:
    """The names that `dump_emitter_re` is looked for in: those of the emitters, of the one for groups, of all together."""
    return *(emitter.name for emitter in EMITTERS.values()), "group", ANY_EMITTER


@dataclass
class Dumper:
    """Writes the IR of one module to files in `directory`; does nothing if that is None. `pattern` selects passes,
    `emitter_pattern` emitters; `emitters` are those of the kernels by name.
    """

    directory: Path | None
    pattern: str
    stem: str
    emitter_pattern: str = ""
    emitters: dict[str, str] = field(default_factory=dict[str, str])
    written: list[Path] = field(default_factory=list[Path])

    @classmethod
    def of(cls, options: Options, module_name: str) -> "Dumper":
        """The dumper for one module under these options; the directory is made."""
        if options.dump_dir is not None:
            with writing(options.dump_dir):
                options.dump_dir.mkdir(parents=True, exist_ok=True)
        safe = re.sub(r"[^\w.-]", "_", module_name) or "module"
        return cls(options.dump_dir, options.dump_pass_re, f"module_{options.dump_number:04d}.{safe}", options.dump_emitter_re)

    @property
    def is_on(self) -> bool:
        return self.directory is not None

    def selects(self, pass_name: str) -> bool:
        """True if the pass is to be dumped: it matches the pattern, or there is none; the pattern `fusion-emitter` selects every
        pass.
        """
        if self.directory is None:
            return False
        return not self.pattern or any(re.search(self.pattern, name) for name in (pass_name, EMITTER))

    def write(self, suffix: str, text: str, *, append: bool = False) -> None:
        """Write or extend `<stem>.<suffix>`."""
        if self.directory is None:
            return
        path = self.directory / f"{self.stem}.{suffix}"
        fresh = path not in self.written
        if fresh:
            self.written.append(path)
        with writing(path), path.open("a" if append and not fresh else "w", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else text + "\n")

    def before(self, number: int, pass_name: str, module: ModuleOp) -> None:
        """The whole module as the pass will see it."""
        if self.selects(pass_name):
            self.write(f"{number:02d}.before-{pass_name}.mlir", str(module))

    def after(self, number: int, pass_name: str, module: ModuleOp) -> None:
        """The whole module as the last pass left it."""
        if self.selects(pass_name):
            self.write(f"{number:02d}.after-{pass_name}.mlir", str(module))

    def hear(self, notes: Iterable[str]) -> None:
        """Notes of the emitters, which say what each of them has taken."""
        self.emitters |= {found["kernel"]: found["emitter"] for note in notes if (found := EMITTED.match(note))}

    def logs(self, kernel: str) -> bool:
        """Does a kernel get a log?"""
        if self.directory is None:
            return False
        names = ANY_EMITTER, self.emitters.get(kernel, "")
        by_emitter = bool(self.emitter_pattern) and any(re.search(self.emitter_pattern, name) for name in names)
        return by_emitter or (bool(self.pattern) and bool(re.search(self.pattern, EMITTER)))

    def log(self, kernel: str, heading: str, text: str) -> None:
        """One entry of a kernel's log, if it has one."""
        if not self.logs(kernel):
            return
        entry = f"// -----// IR Dump {heading} //----- //\n{text}\n\n"
        self.write(f"{kernel}.mlir-passes.log", entry, append=True)
