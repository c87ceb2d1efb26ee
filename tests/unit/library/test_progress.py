"""What a pipeline announces: one JSON line an event, from many processes into one file."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from effectively_once.progress import VARIABLE, announce

WRITER = """
import sys
from effectively_once.progress import announce
for n in range(300):
    announce("step", writer=int(sys.argv[1]), n=n, filler="x" * 500)
"""


def test_an_event_is_one_line_with_its_time_in_milliseconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "events.jsonl"
    monkeypatch.setenv(VARIABLE, str(file))
    before = int(time.time() * 1000)
    announce("epoch", epoch=3, state="declared", note="line\nbreak")
    announce("driver", state="started")
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert before <= first.pop("t") <= time.time() * 1000
    assert first == {"event": "epoch", "epoch": 3, "state": "declared", "note": "line\nbreak"}
    assert second["event"] == "driver"


def test_without_the_variable_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    announce("epoch", epoch=3)
    assert list(tmp_path.iterdir()) == []


def test_lines_of_several_processes_are_not_interleaved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "events.jsonl"
    monkeypatch.setenv(VARIABLE, str(file))
    monkeypatch.setenv("PYTHONPATH", ":".join(entry for entry in sys.path if entry))
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(number)]) for number in range(3)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    seen = [json.loads(line) for line in file.read_text().splitlines()]
    for number in range(3):
        assert [line["n"] for line in seen if line["writer"] == number] == list(range(300))
