"""The recipes of CONTRIBUTING.md as data: what they say to write, where, and with which commands to check it."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
_BLOCK = re.compile(r"(?:^In `(?P<path>[^`]+)`[^\n]*:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Edit:
    """A new file, or lines that are added to one: `before` must be in it exactly once and becomes `after`."""

    path: str
    before: str
    after: str

    def is_done(self, root: Path) -> bool:
        file = root / self.path
        return file.is_file() and self.after in file.read_text()

    def apply(self, root: Path) -> None:
        """Write it; AssertionError if the page does not fit the tree any more."""
        file = root / self.path
        if not self.before:
            assert not file.exists(), f"{self.path} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.after)
            return
        text = file.read_text()
        assert text.count(self.before) == 1, f"{self.path} has these lines {text.count(self.before)} times:\n{self.before}"
        file.write_text(text.replace(self.before, self.after))

    def undone(self) -> "Edit":
        """What takes it back."""
        return Edit(self.path, self.after, self.before)


@dataclass(frozen=True)
class Recipe:
    """A section of the page: edits, and the commands under "Check"."""

    title: str
    edits: tuple[Edit, ...]
    commands: tuple[str, ...]


def recipes(page: str) -> dict[str, Recipe]:
    """The recipes of a page by their titles."""
    found: dict[str, Recipe] = {}
    for section in page.partition("\n## Recipes\n")[2].split("\n### ")[1:]:
        title, _, text = section.partition("\n")
        edits: list[Edit] = []
        commands: list[str] = []
        for block in _BLOCK.finditer(text):
            match block["language"], block["path"]:
                case "sh", None:
                    commands += [line for line in block["text"].splitlines() if line and not line.startswith("#")]
                case "diff", str(path):
                    edits.append(_difference(path, block["text"]))
                case _, str(path):
                    edits.append(Edit(path, "", block["text"]))
                case language, None:
                    raise ValueError(f"{title}: a block of {language} that no `In PATH:` precedes")
        found[title] = Recipe(title, tuple(edits), tuple(commands))
    return found


def _difference(path: str, text: str) -> Edit:
    lines = text.splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    assert before, f"{path}: a difference without a line that is there"
    return Edit(path, before, after)


def copy_tree(target: Path) -> Path:
    """A copy of what git tracks or would track, and of what is built; what is built in it is compiled quickly, not well."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    built = [str(file.relative_to(ROOT)) for kind in ("*.so", "*.pyc") for file in (ROOT / "hlo2tx8").rglob(kind)]
    for name in (*names, *built):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for file in (target / "hlo2tx8" / "device" / "native" / "options.txt", target / "setup.py"):
        file.write_text(re.sub(r"-O[23]", "-O0", file.read_text()))
    return target


def run(command: str, root: Path) -> subprocess.CompletedProcess[str]:
    """A command of the page in a copy of the tree, with this interpreter as `python`."""
    line = re.sub(r"^python ", f"{sys.executable} ", command)
    line = re.sub(r"^hlo2tx8 ", f"{sys.executable} -m hlo2tx8 ", line)
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(root), "HOME": str(root)}
    environment["HLO2TX8_LEVELS"] = "v2"
    return subprocess.run(["bash", "-c", line], cwd=root, env=environment, capture_output=True, text=True, timeout=600, check=False)
