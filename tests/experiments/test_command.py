"""The command line of every experiment: what it writes into the manifest plays the same plan again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.experiments import command, run_folder
from tests.experiments.experiment import Experiment
from tests.experiments.fabricate import MACHINE
from tests.experiments.kinds import EXPERIMENTS, experiment
from tests.experiments.plan import plan_of
from tests.experiments.run_folder import MANIFEST, PAGE

Played = list[tuple[list[str], bool]]
"""Arms that were played, and whether JVMs were to be up soon."""


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Note what would be played, in place of servers."""
    found: Played = []

    @contextmanager
    def stack(_run: Path, _console: Any, _needs: str | None, *, quick: bool) -> Iterator[bool]:
        yield quick

    monkeypatch.setattr(command, "embedded", stack)
    monkeypatch.setattr(run_folder, "machine", lambda: MACHINE)
    return found


def noting(name: str, played: Played) -> Experiment[Any, Any]:
    def play(_run: Path, _plan: Any, arms: Sequence[str], stack: Any, _console: Any) -> None:
        played.append(([*arms], stack))

    return replace(experiment(name), play=play)


def manifest(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((run / MANIFEST).read_bytes())
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_of_which_nothing_was_played_is_unknown_and_its_command_plays_the_same_plan(
    name: str, tmp_path: Path, played: Played
) -> None:
    one = noting(name, played)
    assert command.main(one, ["--seed", "7", "--quick", "--runs", str(tmp_path / "first")]) == 2
    first = tmp_path / "first" / "latest"
    told = manifest(first)
    plan = plan_of(one.plan, told["plan"])
    assert (told["kind"], plan) == (name, one.plan(7, **one.small))
    assert played == [([*one.arms(plan)], True)]
    assert "unknown" in (first / PAGE).read_text()
    make, target, seed, arguments = shlex.split(told["command"])
    assert (make, target, seed) == ("make", one.command, "SEED=7")
    words = arguments.removeprefix("ARGS=").split()
    command.main(one, ["--seed", "7", *words, "--runs", str(tmp_path / "again")])
    again = manifest(tmp_path / "again" / "latest")
    assert (again["plan"], again["jvm"], again["command"]) == (told["plan"], told["jvm"], told["command"])


def test_a_run_that_is_resumed_has_its_own_sizes_and_plays_what_is_asked_for(tmp_path: Path, played: Played) -> None:
    one = noting("two_ways", played)
    command.main(one, ["--seed", "7", "--kills", "0", "--operators", "2", "--runs", str(tmp_path)])
    run = tmp_path / "latest"
    command.main(one, ["--resume", str(run), "--only", "dedup_2", "--quick"])
    assert played == [(["snapshots_2", "dedup_2"], False), (["dedup_2"], False)]


def test_a_plan_that_cannot_be_played_is_one_line(
    tmp_path: Path, played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(noting("compare", played), ["--rate", "0.5", "--runs", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "✗ RATE is 0.5: from 0 to 0.02 is possible; beyond, tasks that succeed only if none of their look-ups fails "
        "come to no end\n"
    )
    assert (played, [*tmp_path.iterdir()]) == ([], [])
