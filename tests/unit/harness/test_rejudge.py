"""`make check` judges a kept run anywhere, says whether it is as kept, and writes nothing into what it judges."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.harness.judge import again as rejudge
from tests.harness.judge import verdict as judge
from tests.harness.pack.archive import INDEX, Pack, pack
from tests.unit.harness.tamper import change_lines
from tests.unit.harness.test_check import checked
from tests.unit.harness.test_pack import contents

KEPT = "kept.tar.xz"


def keep(run: Path, to: Path) -> Path:
    """Keep a run as evidence is kept."""
    to.write_bytes(pack(run).compressed())
    return to


def change_results(kept: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the results in a kept run, with the digest that the pack has of them."""
    members = dict(Pack.of(kept).members)
    index, results = orjson.loads(members[INDEX]), orjson.loads(members["results.json"])
    change(results)
    members["results.json"] = orjson.dumps(results)
    file = next(one for one in index["files"] if one["path"] == "results.json")
    file["sha256"] = hashlib.sha256(members["results.json"]).hexdigest()
    members[INDEX] = orjson.dumps(index)
    kept.write_bytes(Pack(members).compressed())


@pytest.fixture(scope="module")
def clean(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clean run with controls, as it is kept; not to be changed."""
    run = Path(shutil.copytree(pristine, tmp_path_factory.mktemp("judged") / pristine.name))
    judge.judge(run)
    return keep(run, run.parent / KEPT)


@pytest.fixture
def kept(clean: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to be tampered with."""
    return Path(shutil.copy(clean, tmp_path / KEPT))


def test_a_kept_run_gets_the_verdict_of_the_plain_one_and_nothing_is_written(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    before = contents(tmp_path)
    assert checked(monkeypatch, kept) == 0
    assert contents(tmp_path) == before
    said = capsys.readouterr().out
    assert "PASS" in said
    assert "control spark_kafka_sink: fail, must fail" in said
    assert f"✓ as results.json in {kept} says" in said


def test_a_kept_run_that_failed_fails_again(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_lines(run / "observed" / "accepted.jsonl", lambda rows: rows.pop())
    assert judge.judge(run).verdict == "fail"
    assert checked(monkeypatch, keep(run, tmp_path / KEPT)) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"verdict": "fail"}, "verdict was 'fail', and is 'pass' now"),
        ({"workload": {"sent": 1}}, "workload.sent was 1, and is "),
        ({"faults": []}, "faults: 0 were kept, now there are 2"),
        ({"oracles": [{"name": "multiset", "verdict": "unknown"}]}, "oracles.multiset.verdict was 'unknown', and is"),
        ({"oracles": [{"name": "lost", "verdict": "pass"}]}, "oracles.lost was "),
    ],
)
@pytest.mark.thinned(3)
def test_results_that_are_not_those_of_the_run_are_no_pass(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], says: str
) -> None:
    change_results(kept, lambda results: results.update(changes))
    assert checked(monkeypatch, kept) == 2
    assert f"✗ {says}" in capsys.readouterr().err


def test_a_judge_that_finds_more_than_the_kept_one_is_no_difference(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_some(results: dict[str, Any]) -> None:
        results["oracles"] = [{**one, "says": "in other words"} for one in results["oracles"][1:]]
        del results["recovery"]

    change_results(kept, without_some)
    assert checked(monkeypatch, kept) == 0
    change_results(kept, lambda results: results.pop("verdict"))
    assert checked(monkeypatch, kept) == 2, "results without a verdict are no pass"


@pytest.mark.parametrize("name", ["", "no-such-run.tar.xz"])
def test_what_is_no_kept_run_is_not_judged_where_evidence_is(
    kept: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rejudge, "EVIDENCE", kept.parent)
    before = contents(kept.parent)
    assert checked(monkeypatch, kept.parent / name) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "only in files that end in .tar.xz, name one; nothing was written" in said.err
    assert contents(kept.parent) == before


def test_a_damaged_pack_or_a_folder_that_is_not_there_is_unknown_in_one_line(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.write_bytes(kept.read_bytes()[:-100])
    assert checked(monkeypatch, kept) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert checked(monkeypatch, kept.parent / "nowhere") == 2
    assert "✗ there is no run directory" in capsys.readouterr().err


def test_a_run_is_judged_into_another_folder(
    kept: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for source, out in ((run, tmp_path / "of-plain"), (kept, tmp_path / "of-kept")):
        before = kept.read_bytes(), contents(run)
        assert checked(monkeypatch, source, "--out", str(out)) == 0
        assert (kept.read_bytes(), contents(run)) == before
        assert orjson.loads((out / "results.json").read_bytes())["verdict"] == "pass"
        assert (out / "report.html").is_file()
    assert checked(monkeypatch, run, "--out", str(tmp_path / "of-plain")) == 2
    assert "of-plain holds something" in capsys.readouterr().err
    assert checked(monkeypatch, run, "--out", str(run / "again")) == 2
    assert "again is in what is judged" in capsys.readouterr().err
