"""Runs of every experiment: what an arm lacks makes one unknown; its results and page are those of its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from effectively_once_jobs.system_usage.settings import ACKNOWLEDGED, EXACTLY_ONCE
from tests.experiments import page
from tests.experiments.__main__ import main
from tests.experiments.compare.fabricate import fabricate_run as compare
from tests.experiments.drill.fabricate import fabricate_run as drill
from tests.experiments.fabricate import change_facts
from tests.experiments.figures import FACTS
from tests.experiments.kinds import EXPERIMENTS, experiment
from tests.experiments.optimisations.fabricate import fabricate_run as optimisations
from tests.experiments.reconcile import fabricate as reconcile
from tests.experiments.run_folder import MANIFEST, PAGE, RESULTS, TABLE
from tests.experiments.two_ways.fabricate import fabricate_run as two_ways
from tests.harness.results import Verdict

MADE: dict[str, Callable[[Path], Path]] = {
    "compare": compare,
    "two_ways": two_ways,
    "reconcile": lambda path: reconcile.write_run(path, reconcile.play()),
    "optimisations": optimisations,
    "drill": drill,
}


@dataclass(frozen=True)
class Shown:
    """What is to be seen of a run: lines of its table, and plots, each wide and narrow."""

    lines: tuple[str, ...]
    plots: int


SHOWN = {
    "compare": Shown(("✓ at most once never over-counts: transactions -40",), 6),
    "two_ways": Shown(
        (
            "✓ snapshots, 2 operators has no wrong record in its output: 0 of 370 are wrong",
            "| 2, 0 | 80 | 160 | 2.00 |",
            "✓ dedup without its catalog, 2 operators: the same kills make 90 of 90 records wrong",
        ),
        5,
    ),
    "reconcile": Shown(("✓ exactly once differs by what it refused as late and by nothing else",), 3),
    "optimisations": Shown(("| as it is | 3 | 4,800 | 30 | 480 | 2.40 | 3, 3 |",), 4),
    "drill": Shown(
        (
            "| bucket | 0 | 0.0 | 0.16 | 2.5 | 1.5 |",
            "✓ topic loses no record: the input had all that came after the backup: 0 of ",
            "✓ cluster has no record twice: 0 of ",
        ),
        2,
    ),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_is_judged_again_from_its_files_and_what_is_kept_is_whole(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, one = MADE[name](tmp_path / "run"), experiment(name)
    assert main([str(path), "--to", str(tmp_path / "kept")]) == 0
    results = one.judge(path)
    assert one.results.model_validate_json((path / RESULTS).read_bytes()) == results
    kept = {MANIFEST, RESULTS, TABLE, PAGE, *one.page.files(results)}
    assert {file.name for file in (tmp_path / "kept").iterdir()} == kept
    told = capsys.readouterr().out
    assert [line for line in SHOWN[name].lines if line not in told] == []
    assert told.rstrip().endswith("PASS, seed 7")
    html = (path / PAGE).read_text()
    assert html.count("<svg") == 2 * SHOWN[name].plots
    assert html.count("<thead") == len(one.page.tables(results)) + 2
    assert [claim.says for claim in results.claims if claim.says.partition("'")[0] not in html] == []
    assert main([str(tmp_path)]) == 2


ARMS = [("compare", EXACTLY_ONCE, "counted"), ("two_ways", "dedup_4", "results")]


@pytest.mark.parametrize(("name", "arm", "observed"), ARMS)
@pytest.mark.parametrize("file", ["observed/{}.jsonl", "sent.jsonl", FACTS, "history.jsonl"])
@pytest.mark.thinned(3)
def test_an_arm_without_evidence_makes_it_unknown(
    tmp_path: Path, name: str, arm: str, observed: str, file: str
) -> None:
    path, one = MADE[name](tmp_path / "run"), experiment(name)
    (path / arm / file.format(observed)).unlink()
    results = one.judge(path)
    assert [*results.unread] == [arm]
    assert results.verdict is Verdict.UNKNOWN
    assert f"? {one.page.name(arm)}: " in page.markdown(one.page, results)
    assert f"<li>{one.page.name(arm)}: " in page.html(one.page, results, "runs")


@pytest.mark.parametrize(("name", "arm"), [("compare", ACKNOWLEDGED), ("two_ways", "dedup_2")])
def test_an_arm_that_broke_off_is_played_again_and_keeps_the_run_unknown(tmp_path: Path, name: str, arm: str) -> None:
    path, one = MADE[name](tmp_path / "run"), experiment(name)
    _, plan = one.planned(path)
    assert one.left(path, plan) == []
    assert one.left(tmp_path, plan) == [*one.arms(plan)]
    change_facts(path / arm, broke_off="nothing came")
    assert one.left(path, plan) == [arm]
    results = one.judge(path)
    assert (results.unread, results.verdict) == ({arm: "it broke off: nothing came"}, Verdict.UNKNOWN)


def test_a_run_that_broke_off_as_a_whole_is_unknown(tmp_path: Path) -> None:
    path = MADE["reconcile"](tmp_path / "run")
    manifest = orjson.loads((path / MANIFEST).read_bytes())
    (path / MANIFEST).write_bytes(orjson.dumps({**manifest, "broke_off": "no driver came"}))
    results = experiment("reconcile").judge(path)
    assert (results.arms, results.claims, results.verdict) == ([], [], Verdict.UNKNOWN)
    assert "no driver came" in page.markdown(experiment("reconcile").page, results)


@pytest.mark.parametrize(("name", "arm", "_"), ARMS)
@pytest.mark.parametrize("left_out", [-1, 1])
def test_a_history_that_lacks_a_line_is_none_to_judge(
    tmp_path: Path, name: str, arm: str, _: str, left_out: int
) -> None:
    """The end among them: a line in the middle was what is counted, and its lack lowers a figure."""
    path = MADE[name](tmp_path / "run")
    history = path / arm / "history.jsonl"
    lines = history.read_bytes().splitlines(keepends=True)
    del lines[left_out]
    history.write_bytes(b"".join(lines))
    results = experiment(name).judge(path)
    assert "does not come to its end" in results.unread[arm]
    assert results.verdict is Verdict.UNKNOWN
