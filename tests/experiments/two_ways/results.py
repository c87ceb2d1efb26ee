"""The results of a run, computed from the files of its run directory.

`python -m tests.experiments.two_ways.results runs/two-ways/RUN` judges a run again from its files; with `--to FOLDER`
it also copies what the repository keeps of it there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tests.experiments import kept
from tests.experiments.command import judged_again, played_to_its_end
from tests.experiments.kept import Told
from tests.experiments.two_ways.figures import FACTS, Figures, figures
from tests.experiments.two_ways.plan import Plan
from tests.experiments.two_ways.signs import Sign, signs, verdict
from tests.harness.evidence import EvidenceError
from tests.harness.results import Verdict


class TwoWays(Told):
    """All of it, as `results.json` has it.

    Attributes:
        command: repeats it.
        machine: cores, memory, load and versions, when it began.
        unread: arms of which there is no usable evidence, with the reason.

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
    return kept.planned(path, "run of both ways", Plan.of)


def ended(arm: Path) -> bool:
    """Whether an arm was played to its end."""
    return played_to_its_end(arm / FACTS)


def judge(path: Path) -> TwoWays:
    """Compute the results of a run.

    Raises:
        EvidenceError: there is no manifest that can be read.

    """
    manifest, plan = planned(path)
    arms: list[Figures] = []
    unread: dict[str, str] = {}
    for arm in plan.arms:
        try:
            arms.append(figures(path / arm.name, plan, arm))
        except (EvidenceError, OSError, ValueError, ValidationError) as error:
            unread[arm.name] = str(error)
    judged = signs(arms)
    found = verdict(arms, judged, plan)
    return TwoWays(**kept.told(manifest), plan=plan, arms=arms, unread=unread, signs=judged, verdict=found)


def write(path: Path) -> TwoWays:
    """Judge a run, and write its results, its table, its figures and its page."""
    from tests.experiments.two_ways import page  # noqa: PLC0415 - it draws what is here

    results = judge(path)
    return kept.write(path, results, page, {f"{name}.svg": svg + "\n" for name, svg in page.plots(results).items()})


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge again; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.experiments.two_ways import page  # noqa: PLC0415

    return judged_again(arguments, "tests.experiments.two_ways.results", write, page.markdown)


if __name__ == "__main__":
    sys.exit(main())
