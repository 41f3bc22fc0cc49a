"""A sweep as one page that loads nothing, and as two CSV files: fronts of time against area and power, and steps."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from html import escape
from math import ceil, floor, log10
from pathlib import Path

from hlo2tx8.errors import writing
from hlo2tx8.sweep.fronts import COSTS, ParameterStep, Row, by_workload, front, steps, with_mean
from hlo2tx8.sweep.parameters import ChipAxis

WIDTH, HEIGHT, LEFT, BOTTOM = 520, 320, 70, 40
STYLE = """
body{font:14px/1.5 system-ui,sans-serif;color:#1c2128;background:#fff;margin:0 auto;padding:1.5rem 2rem;max-width:1200px}
h2{font-size:1.15rem;border-bottom:1px solid #d4d9e0}table{border-collapse:collapse;font-size:13px;margin:.5rem 0}
th,td{text-align:left;padding:2px 14px 2px 0;border-bottom:1px solid #d4d9e0;font-variant-numeric:tabular-nums}
figure{display:inline-block;margin:.5rem 0}svg text{font:11px system-ui,sans-serif;fill:#1c2128}
svg line{stroke:#d4d9e0}svg circle{fill:#9aa4b1}svg .front{fill:#3b6fd4}svg polyline{fill:none;stroke:#3b6fd4}
"""
NOTE = (
    "Times are those of the timing model. Area and power are proxies in relative units, sums over what a chip has; they are no "
    "mm², no watts, and compare only chips of one sweep."
)


def write_report(folder: Path, rows: Sequence[Row], axes: Sequence[ChipAxis]) -> None:
    """index.html, fronts.csv and steps.csv in a folder, which is made; InputError if it cannot be written."""
    known = with_mean(rows)
    found = list(steps(known, axes))
    on_front = [
        (workload, cost, row["chip"], row["microseconds"], row[cost])
        for workload, own in by_workload(known).items()
        for cost in COSTS
        for row in front(own, cost)
    ]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write_csv(folder / "fronts.csv", ("workload", "against", "chip", "microseconds", "value"), on_front)
        _write_csv(folder / "steps.csv", [f.name for f in fields(ParameterStep)], [astuple(step) for step in found])
        (folder / "index.html").write_text(page(rows, known, found))


def _write_csv(path: Path, header: Iterable[str], lines: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)


def page(rows: Sequence[Row], known: Sequence[Row], found: Sequence[ParameterStep]) -> str:
    """The page's HTML."""
    head = f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Sweep</title><style>{STYLE}</style></head><body>'
    parts = [head, f"<h1>{len(rows)} points</h1><p>{NOTE}</p>"]
    for workload, own in by_workload(known).items():
        parts.append(f"<h2>{escape(workload)}</h2>")
        for cost in COSTS:
            parts.append(f"<figure>{_plot(own, cost)}</figure>")
        fastest = [
            (row["chip"], f"{row['microseconds']:,.1f}", _shown(row["area"]), _shown(row["power"])) for row in front(own, "area")
        ]
        parts.append(_table(("chips on the front of area", "µs", "area", "power"), fastest))
        changes = [
            (f"{s.parameter} {s.before} → {s.after}", f"{s.time:.3f}", f"{s.area:.3f}", f"{s.power:.3f}", s.count)
            for s in found
            if s.workload == workload
        ]
        parts.append(_table(("step", "time", "area", "power", "chips compared"), changes))
    if refused := [(row["workload"], row["chip"], row["status"], row["why"]) for row in rows if row["status"] != "ok"]:
        parts += ["<h2>Without a time</h2>", _table(("workload", "chip", "", "why"), refused)]
    return "\n".join([*parts, "</body></html>"])


def _shown(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.1f}"


def _table(header: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    titles = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(each))}</td>" for each in line) + "</tr>" for line in lines)
    return f"<table><tr>{titles}</tr>{body}</table>"


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers from just below the least to just above the most."""
    step = 10.0 ** floor(log10(max(most - least, most * 1e-3, 1e-9)))
    step *= next(factor for factor in (0.2, 0.5, 1, 2) if (most - least) / (step * factor) <= 6)
    first, last = floor(least / step), ceil(most / step)
    return [step * number for number in range(first, max(last, first + 1) + 1)]


def _plot(rows: Sequence[Row], cost: str) -> str:
    """Time over a cost, a dot per chip, those on the front joined."""
    dots = [row for row in rows if row[cost] is not None]
    if not dots:
        return f"{cost}: not known"
    across, up = (_ticks(min(r[name] for r in dots), max(r[name] for r in dots)) for name in (cost, "microseconds"))

    def place(row: Row) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - 20) * (row[cost] - across[0]) / (across[-1] - across[0])
        y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 15) * (row["microseconds"] - up[0]) / (up[-1] - up[0])
        return round(x, 1), round(y, 1)

    parts = [f'<svg width="{WIDTH}" height="{HEIGHT}" role="img">']
    for value in across:
        x, y = place({cost: value, "microseconds": up[0]})
        parts.append(
            f'<line x1="{x}" y1="15" x2="{x}" y2="{y}"/><text x="{x}" y="{y + 14}" text-anchor="middle">{value:,.6g}</text>'
        )
    for value in up:
        x, y = place({cost: across[0], "microseconds": value})
        label = f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{value:,.6g}</text>'
        parts.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - 20}" y2="{y}"/>{label}')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">{cost}, relative units</text>')
    parts.append(f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})" text-anchor="middle">time, µs</text>')
    best = front(rows, cost)
    parts.append(f'<polyline points="{" ".join(",".join(map(str, place(row))) for row in best)}"/>')
    for row in dots:
        x, y = place(row)
        name = escape(f"{row['chip']}: {row['microseconds']:,.1f} µs, {cost} {row[cost]:,.1f}")
        parts.append(f'<circle cx="{x}" cy="{y}" r="4"{" class=front" if row in best else ""}><title>{name}</title></circle>')
    return "".join([*parts, "</svg>"])
