"""The command line of a run of several arms: its errors, its folder, and its judging again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import orjson

from infra.embedded.guard import interrupted
from infra.embedded.job import RunError
from infra.embedded.process import ServerError
from infra.toolchain.command import ToolchainError
from infra.toolchain.prepare import CHECKOUT
from tests.bench.facts import machine
from tests.experiments.kept import MANIFEST, keep
from tests.harness.commit import git_state
from tests.harness.evidence import EvidenceError
from tests.harness.results import Verdict
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.workload.errors import InputError


class Judged(Protocol):
    """Results that have a verdict."""

    @property
    def verdict(self) -> Verdict:
        """Of all of it."""


STOPPED = "everything that was started has been stopped"
RESUMED = f"{STOPPED}; --resume RUN plays what is left"


def answered(play: Callable[[], Judged], markdown: Callable[[Any], str], interrupts: str = RESUMED) -> int:
    """Play what `play` plays, print its results; returns the exit code. What a user can act on is one line.

    Args:
        play: everything, to the verdict.
        markdown: of the results.
        interrupts: what is told of how things stand after an interrupt.

    """
    try:
        results = play()
    except (EvidenceError, InputError, RunError, ToolchainError, ServerError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return interrupted(end, interrupts)
    sys.stdout.write(markdown(results) + "\n")
    return results.verdict.exit_code


def begun(runs: Path, seed: int, command: str, plan: Mapping[str, Any], jvm: str) -> Path:
    """Make the folder of a new run, with what is to be played in it."""
    path = new_run(runs, seed)
    point_latest(path)
    RunDirectory(path).write_json(
        path / MANIFEST,
        {
            "run": path.name,
            "command": command,
            "plan": plan,
            "jvm": jvm,
            "machine": machine(),
            "git": git_state(CHECKOUT),
        },
    )
    return path


def played_to_its_end(facts: Path) -> bool:
    """Whether an arm was, by its facts."""
    try:
        told = orjson.loads(facts.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and told.get("broke_off", "") is None


def judged_again(
    arguments: Sequence[str] | None, module: str, write: Callable[[Path], Judged], markdown: Callable[[Any], str]
) -> int:
    """Judge a run from its files; exit code 0 pass, 1 fail, 2 unknown."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description="Judges a run again.")
    parser.add_argument("run", type=Path, help="its folder")
    parser.add_argument("--to", type=Path, help="where to copy its results")
    given = parser.parse_args(arguments)
    try:
        results = write(given.run)
    except EvidenceError as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    if given.to is not None:
        keep(given.run, given.to)
    sys.stdout.write(markdown(results) + "\n")
    return results.verdict.exit_code
