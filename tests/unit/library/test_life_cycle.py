"""The command line of the life cycle: what it takes and what it hands on."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.driver.runtime import runtime_of
from effectively_once.errors import SettingsError
from effectively_once.operate import control_commands, life_cycle
from effectively_once.operate.dead_letters import replay
from effectively_once.operate.retention.leftovers import Sort
from effectively_once.sinks.dead_letters import Cut, DeadLetter, Selection

Run = Callable[..., tuple[Any, ...]]
LETTER = DeadLetter("late", "a", b"{}", 4, ("events", 0, 9))
KEPT = replace(LETTER, value=None, cut=Cut(bytes=1, sha256="0", key="clicks/it"))


def whole(letter: DeadLetter) -> DeadLetter:
    return replace(letter, value=b"whole")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line on settings "clicks"; return the name of what is called and what it is given."""
    called: list[tuple[Any, ...]] = []

    def noted(name: str) -> Callable[..., None]:
        return lambda *given, **named: called.append((name, *[it for it in given if it is not life_cycle._say], named))

    for name in ("pause", "drain", "resume"):
        monkeypatch.setattr(control_commands, name, noted(name))
    monkeypatch.setattr(life_cycle, "retention", noted("retention"))
    for name in ("abandon", "accept_loss", "compact", "repair"):
        of_job = noted(name)
        monkeypatch.setattr(life_cycle, name, lambda job, say, of_job=of_job, **how: of_job(job.settings, say, **how))
    monkeypatch.setattr(replay, "replay", noted("replay"))
    monkeypatch.setattr(life_cycle, "DeadLetterTopic", lambda _: [LETTER])
    monkeypatch.setattr(life_cycle, "_whole", lambda _: whole)

    def line(*arguments: str, ids: str = "attached") -> tuple[Any, ...]:
        parser = argparse.ArgumentParser()
        life_cycle.add_to(parser.add_subparsers(required=True))
        given = parser.parse_args(arguments)
        assert given.settings == Path("s.json")
        job = SimpleNamespace(settings="clicks", pipeline=SimpleNamespace(ids=ids))
        assert given.command(job, given) == 0
        return called.pop() if called else ()

    return line


def test_pause_drain_and_resume(run: Run) -> None:
    assert run("pause", "s.json") == ("pause", "clicks", {})
    assert run("resume", "s.json") == ("resume", "clicks", {})
    assert run("drain", "s.json") == ("drain", "clicks", 0.0, {})
    assert run("drain", "s.json", "--wait-s", "1.5") == ("drain", "clicks", 1.5, {})


@pytest.mark.parametrize("command", ["abandon", "compact"])
def test_what_cannot_be_taken_back_is_done_only_when_it_is_told_to(command: str, run: Run) -> None:
    assert run(command, "s.json") == (command, "clicks", {"yes": False})
    assert run(command, "s.json", "--yes") == (command, "clicks", {"yes": True})


def test_a_loss_is_accepted_only_when_it_is_told_to(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(life_cycle.WHEEL_DIGEST, raising=False)
    assert run("accept-loss", "s.json") == ("accept_loss", "clicks", {"yes": False, "wheel_digest": None})
    monkeypatch.setenv(life_cycle.WHEEL_DIGEST, "c" * 64)
    assert run("accept-loss", "s.json", "--yes") == ("accept_loss", "clicks", {"yes": True, "wheel_digest": "c" * 64})


def test_repair_changes_nothing_unless_it_is_told_to(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that is to finish the epoch is the one whose digest is in the environment, if any is."""
    monkeypatch.delenv("EFFECTIVELY_ONCE_WHEEL_DIGEST", raising=False)
    assert run("repair", "s.json") == ("repair", "clicks", {"yes": False, "wheel_digest": None, "runtime": None})
    monkeypatch.setenv("EFFECTIVELY_ONCE_WHEEL_DIGEST", "b" * 64)
    due = {"yes": True, "wheel_digest": "b" * 64, "runtime": runtime_of(None)}
    assert run("repair", "s.json", "--yes") == ("repair", "clicks", due)


def test_retention_deletes_nothing_unless_it_is_told_to(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    name, settings, letters, how = run("retention", "s.json")
    assert (name, settings, how) == ("retention", "clicks", {"delete": False, "age_s": 3600.0, "keep": []})
    monkeypatch.setattr(life_cycle, "DeadLetterTopic", lambda _: [LETTER, KEPT])
    assert letters() == {"clicks/it"}
    *_, how = run("retention", "s.json", "--delete", "--older-than-s", "5", "--keep", "files", "--keep", "recorded")
    assert how == {"delete": True, "age_s": 5.0, "keep": [Sort.FILES, Sort.RECORDED]}


def test_a_replay_is_given_what_is_meant(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dead-letters", "replay", "s.json") == (
        "replay",
        "clicks",
        [LETTER],
        Selection(epochs=(0, None)),
        {"to": None, "edit": None, "anyway": False, "whole": whole},
    )
    how = ["--reason=a", "--reason=b", "--id=x", "--epochs=3-5", "--to=other", "--edit=m:f", "--anyway"]
    assert run("dead-letters", "replay", "s.json", *how) == (
        "replay",
        "clicks",
        [LETTER],
        Selection(frozenset("ab"), frozenset("x"), (3, 5)),
        {"to": "other", "edit": "m:f", "anyway": True, "whole": whole},
    )
    assert capsys.readouterr().out == ""


def test_that_copies_count_twice_is_said_where_records_have_no_ids(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("dead-letters", "replay", "s.json", ids="coordinates")[0] == "replay"
    assert capsys.readouterr().out == (
        "this pipeline identifies records by where they are: what is sent twice counts twice\n"
    )


def test_dead_letters_are_counted_and_shown(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("dead-letters", "count", "s.json", "--reason", "late")
    assert "1  late  epochs 4-4" in capsys.readouterr().out
    run("dead-letters", "show", "s.json", "--epochs", "4-")
    told = json.loads(capsys.readouterr().out)
    assert (told["source"], told["value"]) == (["events", 0, 9], "whole")
    run("dead-letters", "show", "s.json", "--epochs", "5-")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "line",
    [
        "pause",
        "drain s.json --wait-s soon",
        "retention s.json --keep segments",
        "dead-letters s.json",
        "dead-letters show s.json --limit 0",
        "dead-letters count s.json --edit m:f",
    ],
)
def test_what_is_no_command_line_is_refused(line: str, run: Run) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*line.split())
    assert ended.value.code == 2


def test_what_are_no_epochs_is_a_named_error(run: Run) -> None:
    with pytest.raises(SettingsError, match="are no epochs"):
        run("dead-letters", "count", "s.json", "--epochs", "some")
