"""A picture of throughput over chips as SVG, both axes logarithmic, with the line of what would be proportional."""

from collections.abc import Sequence
from html import escape
from math import log2

WIDTH, HEIGHT, EDGE = 640, 400, 60


def picture(points: Sequence[tuple[int, float, str]]) -> str:
    """SVG of points (chips, tokens per second, name), which are in the order of a curve."""
    first = min(points)
    chips = [log2(n) for n, _, _ in points]
    rates = [log2(rate) for _, rate, _ in points]
    ideal = [log2(first[1] * n / first[0]) for n, _, _ in points]
    low, high = min(rates), max(*rates, *ideal)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - min(chips)) / max(1.0, max(chips) - min(chips))
        up = (y - low) / max(1.0, high - low)
        return EDGE + across * (WIDTH - 2 * EDGE), HEIGHT - EDGE - up * (HEIGHT - 2 * EDGE)

    ends = [place(x, y) for x, y in sorted(zip(chips, ideal, strict=True))]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">']
    parts.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    parts.append(f'<polyline points="{line}" fill="none" stroke="gray" stroke-dasharray="4 4"/>')
    for x, y, (count, rate, name) in zip(chips, rates, points, strict=True):
        at, up = place(x, y)
        label = f"{escape(name)}: {rate:,.0f}"
        parts.append(f'<circle cx="{at:.1f}" cy="{up:.1f}" r="4" fill="steelblue"><title>{label}</title></circle>')
        is_fastest = rate == max(other for number, other, _ in points if number == count)
        right, down, side = (8, 4, "start") if is_fastest else (0, 16, "middle")
        parts.append(f'<text x="{at + right:.1f}" y="{up + down:.1f}" text-anchor="{side}">{escape(name)}</text>')
    for number in sorted({n for n, _, _ in points}):
        parts.append(f'<text x="{place(log2(number), low)[0]:.1f}" y="{HEIGHT - 20}" text-anchor="middle">{number}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle">chips (dashed: proportional to the smallest)</text>')
    parts.append(f'<text x="{EDGE}" y="20">tokens per second: {2**low:,.0f} to {2 ** max(rates):,.0f}</text>')
    return "\n".join([*parts, "</svg>", ""])
