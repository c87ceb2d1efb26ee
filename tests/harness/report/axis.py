"""Scales and ticks of the figure: pure geometry, in pixels of the drawing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.harness.report.typeset import MINUS, short_count


@dataclass(frozen=True)
class Scale:
    """A linear map from values to pixels; values outside are drawn at its ends."""

    low: float
    high: float
    at_low: float
    at_high: float

    def __call__(self, value: float) -> float:
        """Return where a value is drawn, to a tenth of a pixel."""
        part = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return round(self.at_low + min(1.0, max(0.0, part)) * (self.at_high - self.at_low), 1)


@dataclass(frozen=True)
class Tick:
    """One labelled position of an axis."""

    at: float
    label: str


def step(span: float, most: int) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten of which at most `most` fit into the span."""
    if span <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(span / most))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor * most >= span * 0.999999)


def vertical(values: Sequence[float], bottom: float, top: float, most: int = 3) -> tuple[Scale, list[Tick]]:
    """Return a scale from zero to a round number above all values, and its ticks."""
    highest = max(values, default=0.0)
    size = step(highest, most) if highest > 0 else 1.0
    steps = max(1, math.ceil(highest / size - 1e-9))
    scale = Scale(0.0, steps * size, bottom, top)
    return scale, [Tick(scale(number * size), short_count(round(number * size, 6))) for number in range(steps + 1)]


def horizontal(begin: float, end: float, start: float, scale: Scale, most: int) -> list[Tick]:
    """Return ticks for moments (milliseconds since 1970), labelled in seconds or minutes after the start."""
    unit_ms, unit = (60_000.0, "min") if end - begin > 600_000 else (1000.0, "s")
    size = max(step((end - begin) / unit_ms, most), 1e-3)
    first = math.ceil((begin - start) / unit_ms / size - 1e-9)
    last = math.floor((end - start) / unit_ms / size + 1e-9)
    ticks = []
    for number in range(first, min(last, first + 2 * most) + 1):
        value = round(number * size, 6)
        label = f"{value:g}".replace("-", MINUS)
        ticks.append(Tick(scale(start + value * unit_ms), f"{label} {unit}" if number == last else label))
    return ticks
