"""Lines in an SVG: one panel a trace, one line a policy, named at its end."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

Curves = dict[str, list[tuple[int, float]]]
"""Points (size, share) by policy."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, LINE = 420, 300, 44, 96, 34, 30, 12
COLOURS = ("#0072b2", "#56b4e9", "#999999", "#e69f00", "#009e73", "#cc79a7", "#b8a000", "#d55e00", "#000000")


def chart(panels: Mapping[str, Curves]) -> str:
    """Panels two a row; sizes on a logarithmic axis, shares from 0."""
    rows = (len(panels) + 1) // 2
    body = "".join(
        f'<g transform="translate({WIDTH * (n % 2)},{HEIGHT * (n // 2)})">{_panel(name, curves)}</g>'
        for n, (name, curves) in enumerate(panels.items())
    )
    size = f'width="{2 * WIDTH}" height="{rows * HEIGHT}"'
    style = "<style>text{font:11px sans-serif;fill:#333}</style>"
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}{ground}{body}</svg>\n'


def _panel(name: str, curves: Curves) -> str:
    sizes = sorted({size for points in curves.values() for size, _ in points})
    top = max(share for points in curves.values() for _, share in points) * 1.05
    span = log(sizes[-1] / sizes[0]) or 1.0

    def x(size: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * log(size / sizes[0]) / span

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share / top

    out = [f'<text x="{LEFT}" y="18" font-weight="bold">{name}: share of blocks served</text>']
    out += [f'<text x="{x(s):.0f}" y="{HEIGHT - 12}" text-anchor="middle">{s:,}</text>' for s in sizes]
    for tenth in range(int(top * 10) + 1):
        at = y(tenth / 10)
        out.append(f'<path d="M{LEFT} {at:.0f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{at + 4:.0f}" text-anchor="end">{tenth / 10:.1f}</text>')
    label = 0.0
    colours = dict(zip(curves, COLOURS, strict=True))
    for policy, points in sorted(curves.items(), key=lambda item: -item[1][-1][1]):
        path = " ".join(f"{x(size):.1f},{y(share):.1f}" for size, share in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colours[policy]}" stroke-width="1.6"/>')
        label = max(y(points[-1][1]) + 4, label + LINE)
        out.append(f'<text x="{WIDTH - RIGHT + 6}" y="{label:.0f}" style="fill:{colours[policy]}">{policy}</text>')
    return "".join(out)
