"""Runs a build tool, keeps its output in a log, and says what went wrong in one readable error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.errors import UserError

TAIL_LINES = 20


class ToolchainError(UserError):
    """A tool is missing or a build failed. The message says which, where the log is and what to do."""


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log, indented; a note if there is none."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return "  (no log)"
    return "\n".join("  " + line for line in text.splitlines()[-lines:]) or "  (the log is empty)"


def run(
    what: str,
    argv: Sequence[str | Path],
    *,
    log: Path,
    hint: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run `argv` to its end, output to `log`; `env` is added to the environment.

    Raises ToolchainError with the end of the log and `hint`, which tells the user what to do.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in argv]
    with log.open("w") as out:
        try:
            ended = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                check=False,
            )
        except OSError as error:
            raise ToolchainError(f"{what}: cannot start {words[0]}: {error}; {hint}") from error
    if ended.returncode != 0:
        raise ToolchainError(f"{what}: {words[0]} ended with {ended.returncode}; {hint}\n{tail(log)}\n  log: {log}")
