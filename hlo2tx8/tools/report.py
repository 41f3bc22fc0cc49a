"""What a run prints about a program: its listing, its modelled cycles and what bounds them, its memory."""

from hlo2tx8.runtime.executable import Executable


def describe(executable: Executable, *, program: bool, report: bool) -> str:
    """The asked-for parts as text, "" if none."""
    parts: list[str] = []
    if program:
        parts.append(f"\n** Tile program {executable.name} **\n{executable.as_text()}\n")
    if report:
        parts.append(f"\n** Modelled cost on {executable.chip.name} **\n{executable.report}\n")
        sizes = executable.memory_analysis()
        parts.append("".join(f"  {key:30} {value:>14,}\n" for key, value in sizes.items()))
    return "".join(parts)
