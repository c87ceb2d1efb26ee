"""The reference campaign that the repository keeps: whole, readable from there, and as large as it has to be."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pytest

from tests.harness.report.campaign import sum_up
from tests.harness.report.packing import LIMIT_BYTES
from tests.harness.results import CampaignResults, Verdict
from tests.unit.report.parsed_page import parse

CHECKOUT = Path(__file__).parents[3]
KEPT = CHECKOUT / "docs" / "evidence" / "reference"
HITS = {
    ("executor", "sigkill"): 100,
    ("driver", "sigkill"): 20,
    ("driver", "zombie"): 20,
    ("broker", "sigkill"): 10,
    ("object store", "sigkill"): 10,
    ("result store", "sigkill"): 5,
    ("operator", "sigkill"): 5,
}

pytestmark = pytest.mark.skipif(not KEPT.is_dir(), reason="no reference campaign is kept yet")


@pytest.fixture(scope="module")
def kept() -> CampaignResults:
    """Return the sum as it is kept."""
    return CampaignResults.model_validate_json((KEPT / "results.json").read_bytes())


def test_it_is_the_sum_of_the_runs_beside_it(kept: CampaignResults) -> None:
    runs = [KEPT / Path(part.run).name for part in kept.parts]
    summed = sum_up(runs)
    unlike = {"parts": (), "reasons": ()}  # these name runs by where they lay
    assert summed.model_copy(update=unlike) == kept.model_copy(update=unlike)
    assert {path.name for path in KEPT.iterdir() if path.is_dir()} == {path.name for path in runs}


def test_every_run_passed_and_nothing_is_missing_doubled_invented_or_altered(kept: CampaignResults) -> None:
    assert kept.verdict is Verdict.PASS
    assert (kept.violations, kept.reasons) == (0, ())
    assert all(output.exact for output in kept.outputs.values())


def test_enough_was_hit_and_sent(kept: CampaignResults) -> None:
    hits = {(one.target, one.kind): one.hits for one in kept.recovery}
    assert {sort for sort, needed in HITS.items() if hits.get(sort, 0) < needed} == set()
    ids = kept.workload.unique_ids
    assert ids is not None
    assert ids >= 1_000_000
    assert kept.workload.duplicates_sent >= 0.05 * ids
    assert kept.workload.late_sent >= 0.01 * ids


def test_each_stack_has_a_run_with_all_controls(kept: CampaignResults) -> None:
    played = {}
    for part in kept.parts:
        run = KEPT / Path(part.run).name
        if controls := orjson.loads((run / "results.json").read_bytes())["controls"]:
            played[part.stack] = [one["verdict"] for one in controls]
    assert played == {"campaign embedded": ["fail"] * 7, "campaign cluster": ["fail"] * 7}


def test_its_links_lead_somewhere_and_it_is_small() -> None:
    links = [link.attributes["href"] for link in parse((KEPT / "report.html").read_text()).all("a")]
    assert links
    assert [link for link in links if not (KEPT / link).is_file()] == []
    for history in KEPT.rglob("history.jsonl.gz"):
        assert gzip.decompress(history.read_bytes()).startswith(b"{")
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) <= LIMIT_BYTES


def test_the_page_of_the_docs_says_what_the_results_say(kept: CampaignResults) -> None:
    hits = {(one.kind, one.target): one.hits for one in kept.recovery}
    operator = sum(number for (kind, target), number in hits.items() if kind == "sigkill" and "operator" in target)
    servers = ", ".join(str(hits["sigkill", one]) for one in ("broker", "object store", "result store"))
    planned, hit = sum(one.faults_planned or 0 for one in kept.parts), sum(one.hits or 0 for one in kept.parts)
    sent, epochs = kept.workload, kept.epochs
    told = " ".join((CHECKOUT / "docs" / "evidence" / "kept.md").read_text(encoding="utf-8").split())
    for line in (
        f"{len(kept.parts)} runs",
        f"| {sent.acknowledged:,}: {sent.unique_ids:,} unique ids, {sent.duplicates_sent:,} duplicates (5.0 %), "
        f"{sent.late_sent:,} late (1.1 %), {sent.malformed_sent:,} malformed |",
        f"| epochs published, and replayed after a fault | {epochs.published}, {epochs.replayed} |",
        f"| faults planned, and that hit a running epoch | {planned}, {hit} |",
        f"| SIGKILL of one executor, or of all at once | {hits['sigkill', 'executor']}, "
        f"{hits['sigkill', 'every executor']} |",
        f"| SIGKILL of the driver | {hits['sigkill', 'driver']} |",
        f"| forced zombies | {hits['zombie', 'driver']} |",
        f"| SIGKILL of broker, object store, result store | {servers} |",
        f"| SIGKILL of the operator, alone or with the driver | {operator} |",
        f"{epochs.longest_gap_s:.0f} s",
    ):
        assert line in told, line
