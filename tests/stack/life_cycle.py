"""The commands of a pipeline's life cycle, run as the command line runs them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from effectively_once.errors import PipelineError
from effectively_once.operate import life_cycle
from effectively_once.pipeline.job import job_of

Command = Callable[[str], tuple[int, list[str]]]
"""Runs one on a test's pipeline; returns the exit code and the lines that were said."""
TextCommand = Callable[[str], tuple[int, str]]
"""As `Command`; returns what was said in one piece."""

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "life-cycle.md"


def run(line: str, settings: Path) -> int:
    """Run `effectively-once ...` on the settings file of a test; return the exit code."""
    parser = argparse.ArgumentParser(prog="effectively-once")
    life_cycle.add_to(parser.add_subparsers(required=True))
    arguments = [str(settings) if word == "settings.json" else word for word in shlex.split(line)]
    given = parser.parse_args(arguments[arguments.index("effectively-once") + 1 :])
    try:
        return int(given.command(job_of(given.settings), given))
    except PipelineError as error:
        print(f"{type(error).__name__}: {error}")  # noqa: T201 - where a test looks for it
        return error.exit_code


def command_on(settings: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs a command on a test's settings file."""
    said = text_of_command(settings, capsys)

    def carry_out(line: str) -> tuple[int, list[str]]:
        code, text = said(line)
        return code, text.splitlines()

    return carry_out


def text_of_command(settings: Path, capsys: pytest.CaptureFixture[str]) -> TextCommand:
    """Return what runs a command on a test's settings file."""

    def carry_out(line: str) -> tuple[int, str]:
        code = run(line, settings)
        return code, capsys.readouterr().out

    return carry_out


def documented(line: str) -> str:
    """Return a command of the how-to as it stands there."""
    assert line in HOW_TO.read_text().splitlines(), line
    return line
