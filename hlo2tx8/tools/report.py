"""Text that `run` and `compile` print about a program: listing, modelled cycles, what bounds them, memory."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hlo2tx8.hlo.least_work import LeastWork
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.tools.profile import engine_table, losses_of

if TYPE_CHECKING:
    from hlo2tx8.compiler.driver import Lowered


def describe_lowered(lowered: "Lowered", *, explains: bool) -> str:
    """The module as text, followed by the explained decisions."""
    return "".join((str(lowered.module), "\n", *explain(lowered.explanation, is_asked=explains)))


def explain(lines: Sequence[str], *, is_asked: bool) -> list[str]:
    """The decisions under a heading; nothing if there are none and nobody asked for them."""
    said = [*filter(None, lines)] or (["nothing had to be decided"] if is_asked else [])
    return ["\n** Decisions **\n" + "".join(f"  {line}\n" for line in said)] if said else []


def products_of(work: Callable[[], LeastWork] | None) -> str:
    """A line that says in which passes the module's dots and convolutions are multiplied, "" if it has none."""
    listed = "" if work is None else ", ".join(f"{count} in {how}" for how, count in work().passes.items())
    return f"dots and convolutions: {listed}\n" if listed else ""


def describe(executable: Executable, *, program: bool, report: bool) -> str:
    """The asked-for parts as text, "" if none."""
    parts = explain(executable.explanation, is_asked=executable.options.explain)
    if program:
        parts.append(f"\n** Tile program {executable.name} **\n{executable.as_text()}\n")
    if report:
        parts.append(f"\n** Modelled cost on {executable.chip.name} **\n{executable.report}\n\n")
        parts.append(products_of(executable.least_work))
        parts.append(losses_of(executable.report.bound_cycles, executable.lost_cycles()))
        parts.append(engine_table(executable.report).text(is_terminal=False) + "\n")
        sizes = executable.memory_analysis()
        parts.append("".join(f"  {key:30} {value:>14,}\n" for key, value in sizes.items()))
    return "".join(parts)
