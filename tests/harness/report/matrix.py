"""The matrix of faults by sort and step, as `results.json` of a campaign has it."""

from dataclasses import dataclass
from typing import Any

from tests.harness.report import naming, typeset
from tests.harness.report.lenient import mappings, text, whole
from tests.harness.schedule import DECLARED, STEPS

_ORDER = (DECLARED, *(f"{step}:{sink}" if sink else step for step, sink in STEPS))


@dataclass(frozen=True)
class Matrix:
    """Counts of faults that hit: `steps` are the columns, `rows` a sort each, with its counts and their sum."""

    steps: list[str]
    rows: list[tuple[str, list[str], str]]


def matrix(results: dict[str, Any]) -> Matrix:
    """Return the matrix; one without rows where the results tell of no fault that hit."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for one in mappings(results.get("struck")):
        sort = (text(one.get("target")), text(one.get("kind")))
        counts.setdefault(sort, {})[text(one.get("phase"))] = whole(one.get("hits")) or 0
    phases = sorted({phase for of in counts.values() for phase in of}, key=_place)
    rows = [
        (
            f"{naming.role(target)}, {naming.name_deed(kind)}",
            [typeset.count(of[phase]) if phase in of else "" for phase in phases],
            typeset.count(sum(of.values())),
        )
        for (target, kind), of in sorted(counts.items(), key=lambda one: (naming.place(one[0][0]), one[0][1]))
    ]
    return Matrix([_name(phase) for phase in phases], rows)


def _place(phase: str) -> tuple[int, str]:
    """Order steps as an epoch has them; others come behind, by name."""
    return (_ORDER.index(phase) if phase in _ORDER else len(_ORDER), phase)


def _name(phase: str) -> str:
    return typeset.words(phase).replace(":", ": ") or typeset.NOT_KNOWN
