"""Tables of medians, and the lines below them that say which target is met."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Target:
    """What is asked of a number; `None` on both sides: it is only reported."""

    at_least: float | None = None
    at_most: float | None = None

    def judge(self, value: float, unit: str = "") -> str:
        """Say the target, and whether it is met."""
        if self.at_least is not None:
            return f"target at least {self.at_least:g}{unit}: {'met' if value >= self.at_least else 'MISSED'}"
        if self.at_most is not None:
            return f"target at most {self.at_most:g}{unit}: {'met' if value <= self.at_most else 'MISSED'}"
        return "reported, no target"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ratio(samples: Samples, ours: str, theirs: str, target: Target | None = None) -> str:
    """Divide the medians of two arms of one run."""
    value = statistics.median(samples[ours]) / statistics.median(samples[theirs])
    return f"{ours} / {theirs}: {value:.2f} ({(target or Target()).judge(value)})"


def paired(samples: Samples, ours: str, theirs: str, target: Target | None = None) -> str:
    """Divide round by round, as what made a round slow made both slow, and take the median of that."""
    each = [one / other for one, other in zip(samples[ours], samples[theirs], strict=True)]
    value = statistics.median(each)
    judged = (target or Target()).judge(value)
    return f"{ours} / {theirs}: {value:.2f} ({min(each):.2f} to {max(each):.2f}; {judged})"


def median(samples: Samples, arm: str, unit: str, target: Target | None = None) -> str:
    """Say the median of one arm."""
    value = statistics.median(samples[arm])
    return f"{arm}: {value:,.1f} {unit} ({(target or Target()).judge(value, ' ' + unit)})"


def text_bars(samples: Samples, unit: str, width: int = 40) -> str:
    """Draw the medians as bars of text."""
    medians = {arm: statistics.median(values) for arm, values in samples.items()}
    widest, highest = max(map(len, medians)), max(medians.values())
    return "\n".join(
        f"{arm:<{widest}}  {'█' * max(1, round(value / highest * width)):<{width}}  {value:,.0f} {unit}"
        for arm, value in medians.items()
    )
