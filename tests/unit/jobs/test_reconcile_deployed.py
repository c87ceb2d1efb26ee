"""The batch run as a driver: what it is told, what it leaves, and that it stays where there is an answer."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import ChainError, SettingsError, UnreachableError
from effectively_once_jobs.reconcile import deployed
from tests.settings import REQUIRED, pipeline_settings
from tests.unit.ledger.memory_store import Fate, MemoryStore

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand in for the object store."""
    there: Any = MemoryStore()
    there.address = pipeline_settings().bucket
    monkeypatch.setattr(deployed, "S3ObjectStore", lambda _: there)
    return there


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Any) -> Run:
    """Run it with some settings while the command ends with a code; its own code, and what it was at since."""
    events = tmp_path / "events.jsonl"
    monkeypatch.setenv("EFFECTIVELY_ONCE_EVENTS", str(events))

    def runs(code: int, **own: Any) -> tuple[int, list[str]]:
        did: list[str] = []

        def command(words: Sequence[str]) -> int:
            did.append(" ".join(["command", Path(words[0]).read_text(), words[1], *words[3:]]))
            Path(words[2]).mkdir()
            (Path(words[2]) / "report.json").write_bytes(b"{}")
            return code

        class Stopped:
            """Set by SIGTERM, which comes once it is waited for."""

            def set(self) -> None:
                did.append("stopped")

            def wait(self) -> None:
                did.append("waits")
                signal.raise_signal(signal.SIGTERM)

        settings = tmp_path / "settings.json"
        settings.write_text(json.dumps({**REQUIRED, **own}))
        before = signal.getsignal(signal.SIGTERM)
        with monkeypatch.context() as patched:
            patched.setattr("effectively_once_jobs.reconcile.__main__.main", command)
            patched.setattr("threading.Event", Stopped)
            try:
                ended = deployed.main([str(settings)])
            finally:
                signal.signal(signal.SIGTERM, before)
        told = [json.loads(line) for line in events.read_text().splitlines()]
        did += [f"{event['event']} {event.get('code')}" for event in told if event["event"] != "driver"]
        return ended, did

    return runs


@pytest.mark.parametrize("code", deployed.ANSWERS)
def test_an_answer_is_told_and_the_driver_stays_until_it_is_told_to_stop(run: Run, store: Any, code: int) -> None:
    ended, did = run(code)
    assert ended == 0
    assert did[1:] == ["waits", "stopped", f"reconciled {code}"]
    (name,) = store.objects
    assert name.startswith("clicks/reconciled/")
    assert name.endswith("/report.json")


def test_a_run_that_could_not_tell_ends_and_leaves_nothing(run: Run, store: Any) -> None:
    ended, did = run(ChainError.exit_code)
    assert (ended, did[1:], store.objects) == (ChainError.exit_code, [], {})


def test_the_command_gets_the_streams_settings_and_what_was_set_beside_them(run: Run) -> None:
    _, (words, *_) = run(0, beside=["a.counts", "b.counts"], since_ms=60_000)
    assert words == f"command {json.dumps(REQUIRED, separators=(',', ':'))} --to" + (
        " --beside a.counts --beside b.counts --since 60000"
    )


def test_each_run_has_names_of_its_own(run: Run, store: Any) -> None:
    run(0)
    assert run(0)[0] == 0
    assert len(store.objects) == 2


def test_a_store_that_does_not_say_that_it_has_a_file_ends_the_driver(
    run: Run, store: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    store.fated(Fate.LOST_DROPPED)
    ended, did = run(0)
    assert (ended, did[1:]) == (UnreachableError.exit_code, [])
    assert "UnreachableError: the object store did not say that it has clicks/reconciled/" in capsys.readouterr().err


@pytest.mark.parametrize("own", [{"besides": ["a.counts"]}, {"beside": "a.counts"}, {"beside": ["a counts"]}])
def test_other_settings_are_refused(run: Run, capsys: pytest.CaptureFixture[str], own: dict[str, Any]) -> None:
    ended, did = run(0, **own)
    assert (ended, did) == (SettingsError.exit_code, [])
    assert f"SettingsError: {next(iter(own))}" in capsys.readouterr().err
