"""The results of a run, computed from the files of its directory.

`python -m tests.experiments.optimisations.results runs/optimisations/RUN` judges a run again from its files; with `--to
FOLDER` it also copies what the repository keeps of it there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from tests.bench.facts import PLANS
from tests.experiments import kept
from tests.experiments.command import judged_again
from tests.experiments.kept import Told, planned, told
from tests.experiments.optimisations import page
from tests.experiments.optimisations.figures import Figures, figures
from tests.experiments.optimisations.plan import ACTORS, Plan
from tests.experiments.optimisations.signs import Sign, signs, verdict
from tests.harness.evidence import EvidenceError
from tests.harness.results import Verdict


class Optimisations(Told):
    """All of it, as `results.json` has it.

    Attributes:
        unread: drivers that left no usable evidence, with the reason.
    """

    plan: Plan
    arms: list[Figures]
    unread: dict[str, str]
    signs: list[Sign]
    verdict: Verdict


def judge(path: Path) -> Optimisations:
    """Compute the results of a run.

    Raises:
        EvidenceError: there is no manifest that can be read.
    """
    manifest, plan = planned(path, "run of optimisations", lambda one: Plan(**one))
    arms: list[Figures] = []
    unread: dict[str, str] = {}
    for actor in ACTORS:
        try:
            arms += figures(path, actor, plan)
        except (EvidenceError, OSError, ValueError, KeyError, ValidationError) as error:
            unread[actor.name] = str(error)
    judged = signs(arms)
    return Optimisations(
        **told(manifest), plan=plan, arms=arms, unread=unread, signs=judged, verdict=verdict(arms, judged)
    )


def write(path: Path) -> Optimisations:
    """Judge a run, and write its results, its table, its plans and its page."""
    results = judge(path)
    return kept.write(path, results, page, {PLANS: page.plans(results) + "\n"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge again; exit code 0 pass, 1 fail, 2 unknown."""
    return judged_again(arguments, "tests.experiments.optimisations.results", write, page.markdown)


if __name__ == "__main__":
    sys.exit(main())
