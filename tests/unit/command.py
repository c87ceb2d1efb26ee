"""The command line, as a user calls it."""

from __future__ import annotations

import sys

import pytest

from infra.command_line import run
from tests.cli import demo, develop, prove  # noqa: F401 - they register their commands
from tests.cli.app import app


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Call it with these words in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["cli", *words])
    return run(app)
