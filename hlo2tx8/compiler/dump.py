"""Dumps: what the IR looked like before each pass, written before the pass that could fail.

With DIR given, `module_0000.gelu.03.before-inline.mlir` and one `.after-<last pass>.mlir`. Where the regular expression
selects `fusion-emitter`, also `module_0000.gelu.<kernel>.mlir-passes.log`: one kernel through all passes below it.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.options import Options

EMITTER = "fusion-emitter"


@dataclass
class Dumper:
    """Writes the IR of one module to files in `directory`; does nothing if that is None."""

    directory: Path | None
    pattern: str
    stem: str
    written: list[Path] = field(default_factory=list[Path])

    @classmethod
    def of(cls, options: Options, module_name: str) -> "Dumper":
        """The dumper for one module under these options; the directory is made."""
        if options.dump_dir is not None:
            options.dump_dir.mkdir(parents=True, exist_ok=True)
        safe = re.sub(r"[^\w.-]", "_", module_name) or "module"
        return cls(options.dump_dir, options.dump_pass_re, f"module_{options.dump_number:04d}.{safe}")

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
        with path.open("a" if append and not fresh else "w", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else text + "\n")

    def before(self, number: int, pass_name: str, module: ModuleOp) -> None:
        """The whole module as the pass will see it."""
        if self.selects(pass_name):
            self.write(f"{number:02d}.before-{pass_name}.mlir", str(module))

    def after(self, number: int, pass_name: str, module: ModuleOp) -> None:
        """The whole module as the last pass left it."""
        if self.selects(pass_name):
            self.write(f"{number:02d}.after-{pass_name}.mlir", str(module))

    def log(self, kernel: str, heading: str, text: str) -> None:
        """One entry of a kernel's log."""
        if self.directory is None or not self.pattern or not re.search(self.pattern, EMITTER):
            return
        entry = f"// -----// IR Dump {heading} //----- //\n{text}\n\n"
        self.write(f"{kernel}.mlir-passes.log", entry, append=True)
