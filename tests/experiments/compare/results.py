"""The results of a comparison, computed from the files of its run directory.

`python -m tests.experiments.compare.results runs/compare/RUN` judges a run again from its files; with `--to FOLDER` it
also copies what the repository keeps of it there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from effectively_once_jobs.system_usage.settings import ALL
from tests.experiments import kept
from tests.experiments.command import judged_again, played_to_its_end
from tests.experiments.compare.figures import FACTS, Figures, figures
from tests.experiments.compare.plan import Plan
from tests.experiments.compare.signs import Sign, signs, verdict
from tests.experiments.kept import Told
from tests.harness.evidence import EvidenceError
from tests.harness.results import Verdict


class Comparison(Told):
    """All of it, as `results.json` has it.

    Attributes:
        unread: semantics of which there is no usable evidence, with the reason.

    """

    plan: Plan
    arms: list[Figures]
    unread: dict[str, str]
    signs: list[Sign]
    verdict: Verdict


def planned(path: Path) -> tuple[dict[str, Any], Plan]:
    """Read what a run was to play: its manifest, and the plan in it.

    Raises:
        EvidenceError: there is none that can be read.

    """
    return kept.planned(path, "comparison", lambda one: Plan(**one))


def ended(arm: Path) -> bool:
    """Whether an arm was played to its end."""
    return played_to_its_end(arm / FACTS)


def judge(path: Path) -> Comparison:
    """Compute the results of a run.

    Raises:
        EvidenceError: there is no manifest that can be read.

    """
    manifest, plan = planned(path)
    arms: list[Figures] = []
    unread: dict[str, str] = {}
    for semantics in ALL:
        try:
            arms.append(figures(path / semantics, plan))
        except (EvidenceError, OSError, ValueError, ValidationError) as error:
            unread[semantics] = str(error)
    judged = signs(arms, plan)
    told = kept.told(manifest)
    return Comparison(**told, plan=plan, arms=arms, unread=unread, signs=judged, verdict=verdict(arms, judged))


def write(path: Path) -> Comparison:
    """Judge a run, and write its results, its table, its figures and its page."""
    from tests.experiments.compare import page  # noqa: PLC0415 - it draws what is here

    results = judge(path)
    return kept.write(path, results, page, {f"{name}.svg": svg + "\n" for name, svg in page.plots(results).items()})


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge again; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.experiments.compare import page  # noqa: PLC0415

    return judged_again(arguments, "tests.experiments.compare.results", write, page.markdown)


if __name__ == "__main__":
    sys.exit(main())
