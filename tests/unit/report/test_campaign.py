"""A campaign is the sum of its runs, and no better than the worst of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.report import main
from tests.harness.report.campaign import CampaignError, sum_up, write
from tests.harness.report.matrix import matrix
from tests.harness.results import Verdict
from tests.unit.report.conftest import change, results_of
from tests.unit.report.parsed_page import parse


def test_numbers_are_added_up(parts: list[Path]) -> None:
    for part in parts:
        outputs = results_of(part)["outputs"]
        outputs["dead_letter"]["causes"] = {"late": 3, "sent again": 1200}
        change(part, "results.json", outputs=outputs)
    one, summed = results_of(parts[0]), sum_up(parts)
    assert summed.verdict is Verdict.PASS
    assert summed.workload.unique_ids == 2 * one["workload"]["unique_ids"]
    assert summed.workload.late_sent == 2 * one["workload"]["late_sent"]
    assert summed.outputs["accepted"].observed == 2 * one["outputs"]["accepted"]["observed"]
    assert {(sort.target, sort.kind): (sort.injected, sort.hits) for sort in summed.recovery} == {
        ("driver", "sigkill"): (2, 2),
        ("executor", "sigkill"): (4, 4),
    }
    assert {bound.role: (bound.hits, bound.upper_95) for bound in summed.bounds} == {
        "driver": (2, 1.0),
        "executor": (4, 0.75),
        "all": (6, 0.5),
    }
    assert summed.outputs["dead_letter"].causes == {"late": 6, "sent again": 2400}
    assert summed.reasons == ()


def test_times_are_those_of_all_faults_and_no_means_of_means(parts: list[Path]) -> None:
    faults = results_of(parts[0])["faults"]
    for fault in faults:
        fault["recovered_s"] = 100.0
    change(parts[0], "results.json", faults=faults)
    executor = next(sort for sort in sum_up(parts).recovery if sort.target == "executor")
    assert executor.recovered_s is not None
    assert (executor.recovered_s.n, executor.recovered_s.max) == (4, 100.0)
    assert executor.recovered_s.median == round((100.0 + 1.61) / 2, 3)


@pytest.mark.parametrize("verdict", ["fail", "unknown"])
def test_one_bad_part_is_that_of_the_campaign_and_named(parts: list[Path], verdict: str) -> None:
    change(parts[1], "results.json", verdict=verdict, reasons=["because"])
    summed = sum_up(parts)
    assert summed.verdict == verdict
    assert [reason.endswith(f"is {verdict}: because") for reason in summed.reasons] == [True]


def test_a_violation_and_faults_of_a_part_that_is_unknown_bound_nothing(parts: list[Path]) -> None:
    change(parts[1], "results.json", verdict="unknown")
    assert {bound.role: bound.hits for bound in sum_up(parts).bounds} == {"driver": 1, "executor": 2, "all": 3}
    oracles = [{"name": "multiset", "number": 1, "verdict": "fail", "says": "1 missing"}]
    change(parts[1], "results.json", verdict="fail", oracles=oracles)
    summed = sum_up(parts)
    assert summed.violations == 1
    assert {bound.upper_95 for bound in summed.bounds} == {None}


@pytest.mark.parametrize("junk", [b"", b"{}", b'{"verdict": "pass"}'])
def test_a_part_that_cannot_be_read_makes_the_campaign_unknown(parts: list[Path], junk: bytes) -> None:
    (parts[1] / "results.json").write_bytes(junk)
    summed = sum_up(parts)
    assert summed.verdict is Verdict.UNKNOWN
    assert [part.verdict for part in summed.parts] == [Verdict.PASS, Verdict.UNKNOWN]
    assert str(parts[1]) in summed.reasons[0]
    assert summed.outputs["accepted"].observed == results_of(parts[0])["outputs"]["accepted"]["observed"]


def test_ids_that_a_part_did_not_count_are_not_guessed(parts: list[Path]) -> None:
    workload = results_of(parts[1])["workload"]
    del workload["unique_ids"]
    change(parts[1], "results.json", workload=workload)
    assert sum_up(parts).workload.unique_ids is None


def test_a_run_counts_once(parts: list[Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(parts[0], tmp_path / "copy"))
    for twice in ([*parts, parts[0]], [*parts, copy]):
        with pytest.raises(CampaignError, match="name each run once"):
            sum_up(twice)


def test_what_is_no_run_is_no_part(parts: list[Path], tmp_path: Path) -> None:
    control = parts[0] / "controls" / "spark_kafka_sink"
    for runs, says in (
        ([tmp_path / "nowhere"], "there is no run directory"),
        ([], "name the run directories"),
        ([control], "is a control"),
    ):
        with pytest.raises(CampaignError, match=says):
            sum_up(runs)
    for runs, to in ((parts, parts[0]), (parts[:1], parts[1])):
        with pytest.raises(CampaignError, match="a directory of its own"):
            write(runs, to)


def test_faults_are_counted_by_step_where_they_hit_and_steps_come_as_an_epoch_has_them(parts: list[Path]) -> None:
    faults = results_of(parts[0])["faults"]
    for fault, phase in zip(faults, ("ids_decided", "declared", "windows_decided"), strict=True):
        fault.update(kind="sigkill", target="executor", phase=phase, hit=phase != "windows_decided")
    change(parts[0], "results.json", faults=faults)
    found = matrix(sum_up(parts[:1]).model_dump(mode="json"))
    assert found.steps == ["declared", "ids decided"]
    assert found.rows == [("executor, SIGKILL", ["1", "1"], "2")]


def test_links_lead_from_the_sum_to_its_parts(parts: list[Path], tmp_path: Path) -> None:
    _, page = write(parts, tmp_path / "evidence" / "sum")
    for link in parse(page.read_text(encoding="utf-8")).all("a"):
        assert (page.parent / link.attributes["href"]).is_file()


def test_exit_codes_are_those_of_the_verdict(parts: list[Path], tmp_path: Path) -> None:
    to = ["--to", str(tmp_path / "sum")]
    assert main(["campaign", *map(str, parts), *to]) == 0
    change(parts[1], "results.json", verdict="unknown")
    assert main(["campaign", *map(str, parts), *to]) == 2
    change(parts[1], "results.json", verdict="fail")
    assert main(["campaign", *map(str, parts), *to]) == 1
    assert main(["campaign", str(tmp_path / "nowhere"), *to]) == 2
