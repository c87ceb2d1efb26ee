"""A plot of an experiment's page: a bar for the median of each row, a dot for every value; wide, and for a phone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from tests.harness.report.axis import Scale, step
from tests.harness.report.typeset import count, short_count

BAR, TOP, AXIS = 12, 6, 22


@dataclass(frozen=True)
class Plot:
    """What is drawn.

    Attributes:
        title: said above it.
        unit: of all values; on the axis.
        rows: name -> values. A row without any is left out.

    """

    title: str
    unit: str
    rows: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Frame:
    """Room for it, in the units that the style sheet sets type in.

    Attributes:
        name: the style sheet shows one of both, by the width of the window.
        left: where bars begin; names stand before them, or above each where there is no room.
        right: room for a row's number.

    """

    name: str
    width: int
    left: int
    right: int
    row: int

    @property
    def above(self) -> int:
        """How much of a row its name takes."""
        return self.row - BAR - 8 if self.left < 50 else 0


WIDE, NARROW = Frame("wide", 1080, 300, 70, 24), Frame("narrow", 360, 2, 56, 36)


def draw(plot: Plot, frame: Frame) -> str:
    """Draw it as SVG that is part of a page; a pure function."""
    rows = {name: values for name, values in plot.rows.items() if values}
    highest = max(max(values) for values in rows.values())
    tick = step(highest, 6 if frame is WIDE else 4)
    x = Scale(0.0, highest, frame.left, frame.width - frame.right)
    bottom = TOP + frame.row * len(rows)
    parts = [f"<title>{escape(plot.title)}</title>"]
    ticks = [number * tick for number in range(int(highest / tick + 1e-9) + 1)]
    for value in ticks:
        line = "base" if value == 0 else "grid"
        parts.append(f'<line class="{line}" x1="{x(value)}" x2="{x(value)}" y1="{TOP - 4}" y2="{bottom}"/>')
        label = f"{short_count(value)} {escape(plot.unit)}" if value == ticks[-1] else short_count(value)
        anchor = "start" if value == 0 and frame.above else "end" if x(value) > frame.width - 90 else "middle"
        parts.append(f'<text class="tick" text-anchor="{anchor}" x="{x(value)}" y="{bottom + 14}">{label}</text>')
    for number, (name, values) in enumerate(rows.items()):
        parts += _row(name, values, TOP + frame.row * number, x, frame)
    return (
        f'<svg class="timeline {frame.name}" role="img" viewBox="0 0 {frame.width} {bottom + AXIS}">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _row(name: str, values: Sequence[float], top: float, x: Scale, frame: Frame) -> Iterator[str]:
    median = statistics.median(values)
    middle = top + frame.above + (frame.row - frame.above) / 2
    anchor, at, line = ("start", frame.left + 5, top + 11) if frame.above else ("end", frame.left - 8, middle + 4)
    yield f'<text text-anchor="{anchor}" x="{at}" y="{line}">{escape(name)}</text>'
    told = f"{name}: {set_number(median)}"
    if len(values) > 1:
        told += f", median of {', '.join(map(set_number, sorted(values)))}"
    width = round(x(median) - frame.left, 1)
    yield (
        f'<rect class="bar epoch" x="{frame.left}" y="{middle - BAR / 2}" width="{width}" height="{BAR}">'
        f"<title>{escape(told)}</title></rect>"
    )
    if len(values) > 1:
        yield from (f'<circle class="dot" cx="{x(value)}" cy="{middle}" r="2.5"/>' for value in values)
    yield f'<text class="label" x="{x(max(values)) + 7}" y="{middle + 4}">{set_number(median)}</text>'


def set_number(value: float) -> str:
    """Set a value with three digits that count: 0.123, 12.3, 1 234, 123k, 1.23M; whole from 100 to 100 000."""
    return count(round(value)) if 100 <= value < 99_999.5 else short_count(float(f"{value:.3g}"))
