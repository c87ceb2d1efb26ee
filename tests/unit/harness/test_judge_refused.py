"""Of a pipeline that stopped for good the verdict names which rows readers lack, before and after it was packed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harness import report
from tests.harness.judge.verdict import judge
from tests.harness.report.packing import PackingError, pack
from tests.harness.results import Verdict
from tests.second_judge.program import ask
from tests.unit.harness.refused_run import EPOCH, SHOWN, refused
from tests.unit.harness.tamper import change_json
from tests.unit.harness.test_check import checked

RUN = Path("runs/20261124-090000-7")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return refused(RUN)


def test_rows_that_readers_lack_of_the_declared_epoch_are_named(run: Path) -> None:
    results = judge(run, second=ask)
    assert results.verdict is Verdict.FAIL
    assert results.oracle("goes on").says == "the pipeline stopped for good: 2 drivers were refused"
    accepted = results.outputs["accepted"]
    assert (accepted.missing, accepted.phantom, accepted.corrupted) == (accepted.expected - accepted.observed, 0, 0)
    assert accepted.missing > SHOWN
    missing = [line for line in results.oracle("multiset").evidence if line.startswith("accepted: missing id")]
    assert all(line.endswith(f", epoch {EPOCH}") for line in missing)
    assert results.oracle("second judge").verdict is Verdict.PASS, results.oracle("second judge").says
    assert results.oracle("quiet").verdict is Verdict.PASS, results.oracle("quiet").says
    assert missing[0].split()[3] in report.write(run).read_text()


def test_an_epoch_that_is_declared_and_cannot_be_read_is_not_judged(run: Path) -> None:
    change_json(run / "observed" / "chain.json", lambda chain: chain["head"]["declared"].pop("ranges"))
    results = judge(run, write=False)
    assert results.verdict is Verdict.FAIL
    assert results.outputs["accepted"].phantom == SHOWN


def test_it_is_packed_when_asked_for_and_fails_again(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Path("kept")
    judge(run, second=ask)
    report.write(run)
    with pytest.raises(PackingError, match="is fail: --any-verdict packs it all the same"):
        pack([run], kept, [], checkout=Path())
    assert pack([run], kept, [], checkout=Path(), any_verdict=True)[0].verdict == "fail"
    shutil.rmtree(run)
    assert (kept / f"{RUN.name}.tar.xz").is_file()
    assert checked(monkeypatch, kept / f"{RUN.name}.tar.xz") == Verdict.FAIL.exit_code
    assert "✓ as results.json in kept/" in capsys.readouterr().out
