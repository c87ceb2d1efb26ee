"""The tutorial does what it says: its files are written, its commands run, and what it shows comes out."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from infra.embedded.process import Child, wait_for
from infra.toolchain.prepare import CHECKOUT

pytestmark = pytest.mark.spark

PAGE = CHECKOUT / "docs" / "tutorial.md"
FOLDER = "../clicks"
COMMAND_S, RUNS_S, EPOCH_S, END_S = 120.0, 120.0, 60.0, 60.0
LINES = 50
"""Lines that a reader writes: what the tutorial promises to be short."""


def blocks(language: str) -> list[str]:
    """Return the blocks of the page that are marked so, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def files() -> dict[str, str]:
    """Return the files that the page gives as a whole, by their path in the folder."""
    found = re.findall(
        rf"^`{FOLDER}/(\S+)`, the whole file:\n\n```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return dict(found)


def commands() -> list[str]:
    """Return every command of the page, in order."""
    return [line for block in blocks("sh") for line in block.splitlines()]


@dataclass(frozen=True)
class Reader:
    """Somebody who reads the page, with the folder of the pipeline in a place of its own."""

    folder: Path

    def make(self, command: str) -> list[str]:
        """Return the command line that a `make` target is one line into."""
        target, *options = command.removeprefix("make ").replace(FOLDER, str(self.folder)).split()
        words = [word for option in options for word in (f"--{option.partition('=')[0].lower()}", option.split("=")[1])]
        return [sys.executable, "-m", "tests.cli", target, *words]

    def run(self, command: str) -> str:
        """Run a command of the page to its end, and return its output."""
        if command.startswith("make "):
            argv = self.make(command)
        else:
            argv = ["bash", "-euo", "pipefail", "-c", command.replace(FOLDER, str(self.folder))]
        done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """The first command was run, and both files are written."""
    reader = Reader(tmp_path / "clicks")
    reader.run(commands()[0])
    for name, text in files().items():
        assert (reader.folder / name).is_file(), f"{name} is none of the files that the first command makes"
        (reader.folder / name).write_text(text)
    return reader


def test_the_tutorial_is_short() -> None:
    assert sorted(files()) == ["src/clicks/__init__.py", "tests/test_clicks.py"]
    assert [command.split()[1] for command in commands() if command.startswith("make ")] == [
        "new-pipeline",
        "test",
        "run",
    ]
    written = [line for text in files().values() for line in text.splitlines() if line.strip()]
    assert 30 < len(written) + len(commands()) <= LINES


def test_what_is_tried_in_memory_holds(reader: Reader) -> None:
    told = reader.run("make test AT=../clicks")
    assert "make test AT=../clicks" in commands()
    assert "1 passed" in told


@pytest.fixture
def running(reader: Reader, tmp_path: Path) -> Iterator[Child]:
    """`make run`, ended and tidied away."""
    # A pipeline of this name may have been run here before, and would be gone on with.
    alone = {"EFFECTIVELY_ONCE_STATE": str(tmp_path / "state")}
    child = Child("make run", reader.make("make run AT=../clicks"), tmp_path / "run.log", cwd=CHECKOUT, env=alone)
    try:
        wait_for("the pipeline", RUNS_S, lambda: "clicks runs" in child.log.read_text(), child)
        yield child
    finally:
        child.stop(END_S)
        shutil.rmtree((CHECKOUT / "runs" / "run-clicks").resolve())
        (CHECKOUT / "runs" / "run-clicks").unlink()


@pytest.mark.slow
def test_what_is_sent_comes_out_once(reader: Reader, running: Child) -> None:
    """Also what was sent twice, and what was sent while an executor was killed; Ctrl-C ends it with exit code 0."""
    after = commands()[commands().index("make run AT=../clicks") + 1 :]
    sent, told = 0, {}
    for command in after:
        told[command] = reader.run(command)
        if command.endswith("/send") or "/send <" in command:
            sent += len((reader.folder / "some.jsonl").read_text().splitlines()) if "<" in command else 1
        elif command.endswith("/kill"):
            assert re.fullmatch(r"kill -9 \d+\n", told[command])
        if not command.endswith("/send") or '"c5"' not in command:
            # The page says: wait for an epoch. That with c5 is not waited for, so that the kill may hit it.
            wait_for(f"{sent} records", EPOCH_S, partial(has_taken, running, sent), running)
    assert sent == 9
    accepted = rows(reader.run("runs/run-clicks/read accepted"))
    assert Counter(row["id"] for row in accepted) == Counter([f"c{number}" for number in range(1, 6)])
    assert [row["value"] for row in rows(told["runs/run-clicks/read dead_letter"])] == ["broken", "broken"]
    shown = rows(blocks("json")[-1])
    assert len(shown) == 3
    for row in shown:
        row.pop("epoch", None)
    views, total = (rows(told[f"runs/run-clicks/read {sink}"]) for sink in ("views", "total"))
    found = [{name: value for name, value in row.items() if name != "epoch"} for row in [*views, *total]]
    assert sorted(map(str, found)) == sorted(map(str, shown))
    running.signal(signal.SIGINT)
    assert running.wait(END_S)
    assert running.status() == 0, running.post_mortem()


def has_taken(running: Child, records: int) -> bool:
    """Return whether the epochs so far have read so many."""
    return sum(int(number) for number in re.findall(r"epoch \d+: (\d+) in,", running.log.read_text())) == records


def rows(text: str) -> list[dict[str, object]]:
    """Return the JSON objects, one a line."""
    return [json.loads(line) for line in text.splitlines()]
