"""One figure a measurement: a bar for the median of each arm, a dot for every sample, a line for a target."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from tests.harness.report.axis import Scale, step
from tests.harness.report.typeset import short_count

WIDTH, LEFT, RIGHT = 760, 250, 90
ROW, BAR, TOP = 34, 14, 44

STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-size:14px;font-weight:600}.n{fill:#666}"
    ".b{fill:#7a9cc6}.d{fill:#222;fill-opacity:.55}.g{stroke:#ddd}.l{stroke:#b3261e;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.n{fill:#aaa}.d{fill:#fff}.g{stroke:#444}.l{stroke:#ff8a80}}"
)


def draw(title: str, unit: str, samples: Mapping[str, Sequence[float]], target: float | None = None) -> str:
    """Draw it as SVG; a pure function.

    Args:
        title: said above it.
        unit: of all samples.
        samples: by arm, at least one each.
        target: a value in the same unit, where there is one.

    """
    highest = max([*(max(values) for values in samples.values()), target or 0.0])
    tick = step(highest, 5)
    x = Scale(0.0, highest, LEFT, WIDTH - RIGHT)
    bottom = TOP + ROW * len(samples)
    parts = [f'<text class="t" x="8" y="20">{escape(title)}</text>']
    for number in range(int(highest / tick + 1e-9) + 1):
        at = x(number * tick)
        parts.append(f'<line class="g" x1="{at}" x2="{at}" y1="{TOP - 8}" y2="{bottom}"/>')
        label = short_count(number * tick)
        parts.append(f'<text class="n" x="{at}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    parts.append(f'<text class="n" x="{WIDTH - RIGHT}" y="{bottom + 34}" text-anchor="end">{escape(unit)}</text>')
    for row, (arm, values) in enumerate(samples.items()):
        parts += _row(arm, values, TOP + ROW * row + ROW / 2, x)
    if target is not None:
        parts.append(f'<line class="l" x1="{x(target)}" x2="{x(target)}" y1="{TOP - 8}" y2="{bottom}"/>')
        parts.append(f'<text class="n" x="{x(target) + 4}" y="{TOP - 10}">target {target:,.6g}</text>')
    height = bottom + 44
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>"
    )


def _row(arm: str, values: Sequence[float], middle: float, x: Scale) -> list[str]:
    median = statistics.median(values)
    told = f"{arm}: median {median:,.4g} of {', '.join(f'{value:,.4g}' for value in sorted(values))}"
    return [
        f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(arm)}</text>',
        f'<rect class="b" x="{LEFT}" y="{middle - BAR / 2}" width="{round(x(median) - LEFT, 1)}" height="{BAR}">'
        f"<title>{escape(told)}</title></rect>",
        *(f'<circle class="d" cx="{x(value)}" cy="{middle}" r="2.5"/>' for value in values),
        f'<text x="{WIDTH - RIGHT + 8}" y="{middle + 4}">{median:,.4g}</text>',
    ]
