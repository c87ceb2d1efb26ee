"""Transactions that have not ended, as the broker's own tool lists them (the Python client cannot)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.harness.adapters.broker_tool import command_of

OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
TIMEOUT_S = 60.0


class ToolFailedError(Exception):
    """The broker's tool did not answer: whether transactions are open is not known."""


def open_transactions(java: Path, class_path: Path, bootstrap: str) -> list[str]:
    """Transactional ids whose transaction is under way, with its state.

    Raises:
        ToolFailedError: with the tool's last words.
    """
    tool = "org.apache.kafka.tools.TransactionsCommand"
    argv = [*command_of(java, class_path, tool, bootstrap), "list"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailedError(str(error)) from error
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not any("TransactionalId" in line for line in lines):
        raise ToolFailedError((done.stderr or done.stdout).strip()[-500:])
    return parse(lines)


def parse(lines: list[str]) -> list[str]:
    """Rows of the tool's table that stand for open transactions."""
    start = next(number for number, line in enumerate(lines) if "TransactionalId" in line)
    rows = [line.split() for line in lines[start + 1 :]]
    return [f"{row[0]} ({state})" for row in rows for state in row[1:] if state in OPEN]
