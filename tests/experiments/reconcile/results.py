"""The results of a reconciliation, computed from the files of its run directory.

`python -m tests.experiments.reconcile.results runs/reconcile/RUN` judges a run again; with `--to FOLDER` it also copies
what the repository keeps of it there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.experiments import kept
from tests.experiments.command import judged_again
from tests.experiments.kept import Told, planned, told
from tests.experiments.reconcile.figures import Figures, figures
from tests.experiments.reconcile.plan import Plan
from tests.experiments.reconcile.signs import Sign, signs, verdict
from tests.harness.evidence import EvidenceError
from tests.harness.results import Verdict


class Reconciliation(Told):
    """All of it, as `results.json` has it.

    Attributes:
        jvm: where it was played (`begun`): JVMs of this machine, or pods.
        unread: says why there are no figures.

    """

    plan: Plan
    figures: Figures | None
    unread: str | None
    signs: list[Sign]
    verdict: Verdict


def judge(path: Path) -> Reconciliation:
    """Compute the results of a run.

    Raises:
        EvidenceError: there is no manifest that can be read.

    """
    manifest, plan = planned(path, "reconciliation", lambda one: Plan(**one))
    found, unread = None, manifest.get("broke_off")
    try:
        found = None if unread else figures(path, plan)
    except (EvidenceError, KeyError, ValueError) as error:
        unread = str(error)
    judged = signs(found, plan) if found else []
    return Reconciliation(
        **told(manifest),
        plan=plan,
        figures=found,
        unread=unread,
        signs=judged,
        verdict=verdict(judged),
    )


def write(path: Path) -> Reconciliation:
    """Judge a run, and write its results, its table and its page."""
    from tests.experiments.reconcile import page  # noqa: PLC0415 - it draws what is here

    return kept.write(path, judge(path), page)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge again; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.experiments.reconcile import page  # noqa: PLC0415

    return judged_again(arguments, "tests.experiments.reconcile.results", write, page.markdown)


if __name__ == "__main__":
    sys.exit(main())
