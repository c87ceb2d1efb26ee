"""The recovery table by sort of fault and the bounds, as `results.json` has them."""

from dataclasses import dataclass
from typing import Any

from tests.harness.report import naming, typeset
from tests.harness.report.lenient import mapping, mappings, real, text, whole

MEASURES = (
    ("replaced_s", "replaced"),
    ("recovered_s", "next epoch"),
    ("caught_up_s", "caught up"),
)


@dataclass(frozen=True)
class Sort:
    """One line: who was struck and how, how often it hit, and per measure its median, 99th percentile and maximum."""

    target: str
    done: str
    hits: str
    times: list[tuple[str, list[tuple[str, str]]]]


ENOUGH, TOO_FEW = 10, "too few to bound"
"""So many faults bound a probability at 30 %; what fewer do is no statement."""


@dataclass(frozen=True)
class Bounded:
    """One line of the table of bounds."""

    role: str
    hits: str
    upper: str


def sorts(results: dict[str, Any]) -> list[Sort]:
    """Return the sorts of faults in the order of roles."""
    found = sorted(
        mappings(results.get("recovery")),
        key=lambda one: (naming.place(text(one.get("target"))), naming.name_deed(text(one.get("kind")))),
    )
    return [
        Sort(
            naming.role(text(one.get("target"))),
            naming.name_deed(text(one.get("kind"))),
            f"{typeset.count(whole(one.get('hits')))} of {typeset.count(whole(one.get('injected')))}",
            [(label, _times(mapping(one.get(name)))) for name, label in MEASURES],
        )
        for one in found
    ]


def _times(spread: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, typeset.seconds(real(spread.get(name)), 2)) for name in ("median", "p99", "max")]


def bounds(results: dict[str, Any]) -> list[Bounded]:
    """Return the bounds by role; the last is that of all together."""
    return [
        Bounded(
            "all roles" if text(one.get("role")) == "all" else naming.role(text(one.get("role"))),
            typeset.count(whole(one.get("hits"))),
            _upper(one),
        )
        for one in mappings(results.get("bounds"))
    ]


def _upper(bound: dict[str, Any]) -> str:
    few = (whole(bound.get("hits")) or 0) < ENOUGH
    return TOO_FEW if few and bound.get("upper_95") is not None else typeset.percent(real(bound.get("upper_95")))
