"""Pages from Python: what `hlo2tx8.report` does."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.errors import writing
from hlo2tx8.options import Options
from hlo2tx8.reports.facts import Facts, facts_of
from hlo2tx8.reports.page import page_of, require
from hlo2tx8.reports.shown import Shown
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable

Parse = Callable[[str, str], ModuleOp]
"""The module of IR text, which errors call by a name."""


def make_page(
    sources: Sequence[object], args: Sequence[Any] | None, options: Options, output: Path | None, format: str, parse: Parse
) -> str:
    """The page of one source, or of two that are compared, written to `output` if there is one. InputError without jinja2."""
    require()
    page = page_of([_facts(source, args, options, format, parse) for source in sources], is_comparison=len(sources) > 1)
    if output is not None:
        with writing(output):
            output.write_text(page, encoding="utf-8")
    return page


def _facts(source: object, args: Sequence[Any] | None, options: Options, format: str, parse: Parse) -> Facts:
    if isinstance(source, Executable):
        return facts_of(source, Shown.of(source, lambda text: parse(text, source.name)))
    shown = Shown()
    executable = compile_source(source, options, args=args, format=format, show=shown)
    file = Path(source) if isinstance(source, str | Path) and "\n" not in str(source) and Path(source).is_file() else None
    name = file.name if file is not None else getattr(source, "__name__", "")
    return facts_of(executable, shown, name, file)
