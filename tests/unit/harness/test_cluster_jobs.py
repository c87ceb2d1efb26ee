"""Which example jobs there are on a cluster, and the verdict over all of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from infra.console import Console
from infra.embedded.job import RunError
from tests.acceptance import jobs
from tests.harness.campaigns.suites import NoSuiteError
from tests.harness.results import Verdict

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


def players(monkeypatch: pytest.MonkeyPatch, *verdicts: Verdict) -> list[Any]:
    """Jobs whose players give these verdicts; what was played and shown."""
    done: list[Any] = []

    def one(name: str, verdict: Verdict) -> Any:
        def played(seed: int, _: Console) -> Any:
            done.append((name, seed))
            return SimpleNamespace(verdict=verdict)

        return SimpleNamespace(on_this_machine=played, show=lambda results, _: done.append(results.verdict))

    there = {f"job_{n}": one(f"job_{n}", verdict) for n, verdict in enumerate(verdicts)}
    monkeypatch.setattr(jobs, "PLAYED_BY", there)
    monkeypatch.setattr(jobs, "player", there.__getitem__)
    return done


@pytest.mark.parametrize("job", jobs.PLAYED_BY)
def test_every_job_has_somebody_who_plays_it(job: str) -> None:
    one = jobs.player(job)
    assert callable(one.on_this_machine)
    assert callable(one.show)


def test_a_job_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(NoSuiteError, match=f"no job 'fraudd'; there are: {', '.join(jobs.PLAYED_BY)}"):
        jobs.play("fraudd", 7, Console(), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [((PASS, PASS), PASS), ((PASS, UNKNOWN), UNKNOWN), ((FAIL, UNKNOWN), FAIL), ((UNKNOWN, FAIL, PASS), FAIL)],
)
def test_all_are_played_with_one_seed_and_the_worst_verdict_counts(
    monkeypatch: pytest.MonkeyPatch, verdicts: tuple[Verdict, ...], worst: Verdict
) -> None:
    done = players(monkeypatch, *verdicts)
    assert jobs.play(None, 7, Console(), None) is worst  # type: ignore[arg-type]
    assert done == [each for n, verdict in enumerate(verdicts) for each in ((f"job_{n}", 7), verdict)]


def test_one_job_is_played_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    done = players(monkeypatch, FAIL, PASS)
    assert jobs.play("job_1", 8, Console(), None) is PASS  # type: ignore[arg-type]
    assert done == [("job_1", 8), PASS]


def test_a_job_that_cannot_be_played_is_unknown_and_the_others_are_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = players(monkeypatch, PASS, PASS)

    def refused(*_: Any) -> Any:
        raise RunError("the platform has no PostgreSQL of its own")

    monkeypatch.setattr(jobs.player("job_0"), "on_this_machine", refused)
    assert jobs.play(None, 7, Console(), None) is UNKNOWN  # type: ignore[arg-type]
    assert done == [("job_1", 7), PASS]
    assert "job_0 cannot be played here: the platform has no PostgreSQL" in capsys.readouterr().err
