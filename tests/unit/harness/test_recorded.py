"""A recorded run is judged whichever way its play ends, and one that broke off is no pass."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.console import Console
from tests.harness.evidence import EvidenceError
from tests.harness.manifest import NEGATIVE_CONTROLS, manifest_of
from tests.harness.play.recorded import run_recorded
from tests.harness.results import Results, Verdict
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import Strike
from tests.harness.subject import seeded
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.tamper import change_lines

SEED = 7
Play = Callable[[RunDirectory], None]


def _manifest(name: str) -> dict[str, Any]:
    return manifest_of(
        name,
        "Every output is exact.",
        SEED,
        seeded(SEED, 2_000),
        checkout=Path(__file__).parent,
        pipeline="user_counts",
        topic="events",
        shards=2,
        strikes=[Strike("sigkill")],
        controls=NEGATIVE_CONTROLS,
    )


def _run(
    checkout: Path, play: Play, manifest: Callable[[str], dict[str, Any]] = _manifest
) -> tuple[Results, RunDirectory, str]:
    stream = io.StringIO()
    results = run_recorded(checkout, SEED, "2,000 records", Console(stream=stream), manifest=manifest, play=play)
    return results, RunDirectory((checkout / "runs" / "latest").resolve()), stream.getvalue()


def _complete(pristine: Path) -> Play:
    def play(directory: RunDirectory) -> None:
        shutil.copytree(pristine, directory.path, dirs_exist_ok=True)

    return play


def test_a_complete_run_passes_and_says_where_it_is(pristine: Path, tmp_path: Path) -> None:
    results, run, said = _run(tmp_path, _complete(pristine))
    assert results.verdict is Verdict.PASS
    assert not (run.logs / "error.txt").exists()
    first, *_, last = said.splitlines()
    assert first == f"run runs/{run.path.name}, seed 7: 2,000 records"
    assert last == f"report runs/{run.path.name}/report.html"


def test_a_play_that_raises_is_judged_and_is_no_pass(tmp_path: Path) -> None:
    def play(directory: RunDirectory) -> None:
        raise RuntimeError("the broker is gone")

    results, run, said = _run(tmp_path, play)
    assert results.verdict is Verdict.UNKNOWN
    assert json.loads(run.results_path.read_text())["verdict"] == "unknown"
    assert run.report_path.is_file()
    assert run.junit_path.is_file()
    assert "RuntimeError: the broker is gone" in (run.logs / "error.txt").read_text()
    assert f"✗ the run broke off: the broker is gone\n  details: runs/{run.path.name}/logs/error.txt" in said


@pytest.mark.parametrize("cut", [True, False], ids=["before its last phase", "after it"])
def test_a_play_that_raises_is_no_pass_with_all_else_there(pristine: Path, tmp_path: Path, cut: bool) -> None:
    def play(directory: RunDirectory) -> None:
        _complete(pristine)(directory)
        if cut:
            change_lines(directory.history_path, lambda events: events.pop())
        raise RuntimeError("the namespace does not go")

    results, run, said = _run(tmp_path, play)
    assert results.verdict is Verdict.UNKNOWN
    assert [one.split(":")[0] for one in results.reasons] == ["history"]
    assert cut or "broke off: RuntimeError: the namespace does not go" in results.reasons[0]
    assert "the namespace does not go" in said
    assert (run.logs / "error.txt").is_file()


def test_an_interrupted_play_is_not_taken_for_a_broken_one(tmp_path: Path) -> None:
    def play(directory: RunDirectory) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, play)


def test_nothing_is_played_for_a_manifest_that_the_judge_cannot_read(tmp_path: Path) -> None:
    def play(directory: RunDirectory) -> None:
        pytest.fail("played")

    with pytest.raises(EvidenceError, match=r"field settings\.shards"):
        _run(tmp_path, play, lambda name: {**_manifest(name), "settings": {"shards": 0}})
    assert not (tmp_path / "runs" / "latest").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_control_that_must_pass_has_a_report_of_its_own(tmp_path: Path, there: bool) -> None:
    def manifest(name: str) -> dict[str, Any]:
        controls = [{"name": "baseline", "must": "pass"}, {"name": "spark_kafka_sink", "must": "fail"}]
        return {**_manifest(name), "controls": controls}

    def play(directory: RunDirectory) -> None:
        if there:
            fabricate(directory.control("baseline").path)
            directory.control("spark_kafka_sink").path.mkdir()

    _, run, _ = _run(tmp_path, play, manifest)
    assert run.control("baseline").report_path.is_file() is there
    assert not run.control("spark_kafka_sink").report_path.exists()
