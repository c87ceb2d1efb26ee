"""The run in pods that the repository keeps: a pass, judged as ever, and the page shows its figures."""

from __future__ import annotations

from infra.cluster.access import CHECKOUT
from tests.experiments.figures import verdict
from tests.experiments.optimisations.claims import claims
from tests.experiments.optimisations.page import Optimisations, plans
from tests.harness.results import Verdict

KEPT = CHECKOUT / "docs" / "evidence" / "optimisations" / "cluster"
PAGE = (CHECKOUT / "docs" / "explanation" / "optimisations.md").read_text()
RESULTS = Optimisations.model_validate_json((KEPT / "results.json").read_bytes())


def test_it_is_a_pass_by_its_figures() -> None:
    judged = claims(RESULTS.arms, RESULTS.plan)
    assert (judged, verdict(judged, whole=not RESULTS.unread)) == (RESULTS.claims, Verdict.PASS)
    assert RESULTS.command in PAGE


def test_the_plans_beside_it_are_drawn_from_them() -> None:
    assert (KEPT / "plans.md").read_text() == plans(RESULTS) + "\n"


def test_the_page_shows_every_variant_as_it_was() -> None:
    for one in RESULTS.arms:
        tasks = ", ".join(str(number) for number in one.tasks.values())
        row = (
            f"{one.arm} | {one.stages} | {one.shuffled_bytes:,} | {one.remote_bytes:,} | {one.shuffled_records:,} | "
            f"{tasks}"
        )
        assert f"| {row} |" in PAGE
