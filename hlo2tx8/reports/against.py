"""Two programs beside each other: which groups are the same, what takes longer in one of them, and why."""

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from hlo2tx8.reports.facts import Facts

MOST_REASONS = 4
SAME_CYCLES = 0.5


def comparison(a: Facts, b: Facts) -> dict[str, object]:
    """Plain values: pairs of runs of groups, [numbers of a], [numbers of b], with cycles, busy cycles by engine and bytes of both,
    and reasons in words; and the same of the whole programs. Groups are matched by name and order; between groups that match
    those of one program stand against those of the other together, since one may have fused what the other has not.
    """
    groups = [list[Any](facts.values["groups"]) for facts in (a, b)]  # pyright: ignore[reportArgumentType]
    keys = [[_key(group) for group in own] for own in groups]
    pairs: list[dict[str, object]] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += [_pair(groups, [a0 + n], [b0 + n]) for n in range(a1 - a0)]
        else:
            pairs.append(_pair(groups, [*range(a0, a1)], [*range(b0, b1)]))
    reports: list[Any] = [a.values["report"], b.values["report"]]
    return {
        "pairs": pairs,
        "launch": [report["overhead_cycles"]["launch"] for report in reports],
        "busy": _engines([report["counters"] for report in reports]),
        "lost": [a.values["lost"], b.values["lost"]],
    }


def _key(group: Mapping[str, Any]) -> str:
    return re.sub(r"([_.]\d+)+$", "", group["name"])


def _engines(counters: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    return {name: [own[name]["busy_cycles"] for own in counters] for name in counters[0]}


def _pair(groups: Sequence[Sequence[Mapping[str, Any]]], *numbers: list[int]) -> dict[str, object]:
    sides = [[own[n] for n in chosen] for own, chosen in zip(groups, numbers, strict=True)]
    cycles = [sum(g["cycles"] for g in side) for side in sides]
    engines = sorted({name for side in sides for g in side for name in g["busy_cycles"]})
    busy = {name: [sum(g["busy_cycles"].get(name, 0.0) for g in side) for side in sides] for name in engines}
    figures = {
        "read from DDR": [sum(sum(g["read"].values()) for g in side) for side in sides],
        "read again": [sum(g["rereads"] for g in side) for side in sides],
        "written to DDR": [sum(sum(g["written"].values()) for g in side) for side in sides],
    }
    bounds = [", ".join(dict.fromkeys(g["bound"] for g in side if g["bound"])) for side in sides]
    reasons = _reasons(cycles, busy, figures, bounds) if all(sides) else []
    return {
        "a": numbers[0],
        "b": numbers[1],
        "cycles": cycles,
        "busy": busy,
        "bytes": figures,
        "bounds": bounds,
        "reasons": reasons,
    }


def _reasons(
    cycles: Sequence[float], busy: Mapping[str, Sequence[float]], moved: Mapping[str, Sequence[int]], bounds: Sequence[str]
) -> list[str]:
    """What a does otherwise than b where that goes in the direction of the time, the most cycles first."""
    longer = cycles[0] - cycles[1]
    if abs(longer) < SAME_CYCLES:
        return []
    sign = 1 if longer > 0 else -1
    word = "more" if longer > 0 else "less"
    found = [(sign * (a - b), f"{name} works {abs(a - b):,.0f} cycles {word}") for name, (a, b) in busy.items()]
    said = [text for gain, text in sorted(found, reverse=True) if gain >= max(SAME_CYCLES, 0.02 * abs(longer))][:MOST_REASONS]
    said += [f"{abs(a - b):,} bytes {word} are {name}" for name, (a, b) in moved.items() if sign * (a - b) > 0]
    if bounds[0] != bounds[1]:
        said.append(f"bound by {bounds[0]}, not by {bounds[1]}")
    most = [max((own[side] for own in busy.values()), default=0.0) for side in (0, 1)]
    idle = sign * ((cycles[0] - most[0]) - (cycles[1] - most[1]))
    if idle > 0.25 * abs(longer):
        said.append(f"{idle:,.0f} cycles {word} in which its busiest engine does not work")
    return said
