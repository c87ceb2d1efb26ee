"""The campaigns that the repository keeps: whole, judged by both judges, and as large as they have to be."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.pack.archive import SUFFIX
from tests.harness.report.campaign import sum_up
from tests.harness.report.kept import draw_sum
from tests.harness.report.listing import Listed, list_run, page_beside
from tests.harness.report.packing import LIMIT_BYTES
from tests.harness.results import CampaignResults, Verdict
from tests.harness.soak.plan import read_plan
from tests.harness.soak.state import State
from tests.unit.report.parsed_page import parse

CHECKOUT = Path(__file__).parents[3]
KEPT = CHECKOUT / "docs" / "evidence" / "reference"
LAG = CHECKOUT / "docs" / "evidence" / "lag"
PLAN = CHECKOUT / "tests" / "harness" / "campaigns" / "reference.toml"
HITS = {
    ("executor", "sigkill"): 114,
    ("driver", "sigkill"): 25,
    ("driver", "zombie"): 23,
    ("broker", "sigkill"): 14,
    ("object store", "sigkill"): 14,
    ("result store", "sigkill"): 8,
    ("operator", "sigkill"): 5,
}
FILES = 150
"""Of all evidence, at most."""
OPERATORS = 9
"""Kills of the operator, alone or with a driver."""


@pytest.fixture(scope="module")
def kept() -> CampaignResults:
    """Return the sum as it is kept."""
    return CampaignResults.model_validate_json((KEPT / "results.json").read_bytes())


@pytest.fixture(scope="module")
def runs() -> list[Listed]:
    """Return what each run says of itself."""
    return [list_run(packed) for packed in sorted(KEPT.glob(f"*{SUFFIX}"))]


def test_it_is_the_sum_of_the_runs_beside_it(kept: CampaignResults, runs: list[Listed]) -> None:
    summed = sum_up([one.path for one in runs])
    unlike = {"parts": (), "reasons": ()}  # these name runs by where they lay
    assert summed.model_copy(update=unlike) == kept.model_copy(update=unlike)
    assert {Path(part.run).name.removesuffix(SUFFIX) for part in kept.parts} == {one.name for one in runs}


def test_a_hundred_outages_of_the_campaign_of_lag_were_hit_and_nothing_in_time_was_refused() -> None:
    found = [list_run(packed) for packed in sorted(LAG.glob(f"*{SUFFIX}"))]
    kept = CampaignResults.model_validate_json((LAG / "results.json").read_bytes())
    assert (kept.verdict, kept.violations, len(kept.parts)) == (Verdict.PASS, 0, len(found))
    assert sum(part.hits or 0 for part in kept.parts) >= 100
    assert {one.stack for one in found} == {"campaign embedded", "campaign cluster"}
    judged = Counter((oracle["name"], oracle["verdict"]) for one in found for oracle in one.results["oracles"])
    for name in ("in time", "second judge"):
        assert judged[name, "pass"] == len(found), name
    # What a pipeline says of its windows is asked where there are gateways.
    for name in ("certificates", "answers"):
        assert judged[name, "pass"] >= 10, name


def test_it_is_the_whole_plan(runs: list[Listed]) -> None:
    state = State.model_validate_json((KEPT / "state.json").read_bytes())
    parts = read_plan(PLAN).parts
    assert state.parts == tuple(parts)
    assert set(state.runs()) == {one.name for one in runs}
    assert len(runs) == len(parts)


def test_every_run_passed_and_nothing_is_missing_doubled_invented_or_altered(kept: CampaignResults) -> None:
    assert kept.verdict is Verdict.PASS
    assert (kept.violations, kept.reasons) == (0, ())
    assert all(output.exact for output in kept.outputs.values())


def test_the_runs_of_a_stack_are_of_one_commit_without_changes(runs: list[Listed]) -> None:
    commits = {(one.stack, one.commit) for one in runs}
    assert sorted(stack for stack, _ in commits) == ["campaign cluster", "campaign embedded"]
    assert {len(commit) for _, commit in commits} == {12}, commits


def test_enough_was_hit_and_sent(kept: CampaignResults) -> None:
    hits = {(one.target, one.kind): one.hits for one in kept.recovery}
    assert {sort: hits.get(sort, 0) for sort, needed in HITS.items() if hits.get(sort, 0) < needed} == {}
    assert _operators(kept) >= OPERATORS
    ids = kept.workload.unique_ids
    assert ids is not None
    assert ids >= 1_200_000
    assert kept.workload.duplicates_sent >= 0.05 * ids
    assert kept.workload.late_sent >= 0.01 * ids


def test_each_stack_has_a_run_with_all_controls(runs: list[Listed]) -> None:
    played = {one.stack: [control["verdict"] for control in said] for one in runs if (said := one.results["controls"])}
    assert played == {"campaign embedded": ["fail"] * 7, "campaign cluster": ["fail"] * 7}


def test_its_page_is_drawn_beside_its_runs_and_leads_to_theirs(tmp_path: Path, runs: list[Listed]) -> None:
    for path in (KEPT / "results.json", *(one.path for one in runs)):
        (tmp_path / path.name).symlink_to(path)
    links = {link.attributes["href"] for link in parse(draw_sum(tmp_path).read_text()).all("a")}
    assert {tmp_path / link for link in links} == {page_beside(tmp_path / one.path.name) for one in runs}


def test_all_evidence_is_few_files_and_a_campaign_is_small() -> None:
    # What is drawn from them lies beside them, and git does not hold it.
    argv = ("git", "ls-files", "docs/evidence")
    held = [CHECKOUT / one for one in subprocess.check_output(argv, cwd=CHECKOUT, text=True).splitlines()]
    assert len(held) <= FILES
    assert not [one for one in held if one.name in {"report.html", "page.html"}]
    assert sum(one.stat().st_size for one in held if one.is_relative_to(KEPT)) <= LIMIT_BYTES


def test_the_page_of_the_docs_says_what_the_results_say(kept: CampaignResults) -> None:
    hits = {(one.kind, one.target): one.hits for one in kept.recovery}
    servers = ", ".join(str(hits["sigkill", one]) for one in ("broker", "object store", "result store"))
    planned, hit = sum(one.faults_planned or 0 for one in kept.parts), sum(one.hits or 0 for one in kept.parts)
    sent, epochs = kept.workload, kept.epochs
    told = " ".join((CHECKOUT / "docs" / "evidence" / "kept.md").read_text(encoding="utf-8").split())
    for line in (
        f"{len(kept.parts)} runs",
        f"| {sent.acknowledged:,}: {sent.unique_ids:,} unique ids, {sent.duplicates_sent:,} duplicates (5.1 %), "
        f"{sent.late_sent:,} late (1.1 %), {sent.malformed_sent:,} malformed |",
        f"| epochs published, and replayed after a fault | {epochs.published:,}, {epochs.replayed} |",
        f"| faults planned, and that hit a running epoch | {planned}, {hit} |",
        f"| faults struck, those without an effect too | {sum(one.injected for one in kept.recovery)} |",
        f"| SIGKILL of one executor, or of all at once | {hits['sigkill', 'executor']}, "
        f"{hits['sigkill', 'every executor']} |",
        f"| SIGKILL of the driver | {hits['sigkill', 'driver']} |",
        f"| forced zombies | {hits['zombie', 'driver']} |",
        f"| SIGKILL of broker, object store, result store | {servers} |",
        f"| SIGKILL of the operator, alone or with the driver | {_operators(kept)} |",
        f"{epochs.longest_gap_s:.0f} s",
    ):
        assert line in told, line


def _operators(kept: CampaignResults) -> int:
    return sum(one.hits for one in kept.recovery if one.kind == "sigkill" and "operator" in one.target)
