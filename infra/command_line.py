"""Runs a command line: errors that a user can act on are one line, and nothing that was started is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from infra.embedded.guard import run_guarded
from infra.errors import UserError
from infra.toolchain.prepare import CHECKOUT

WIDTH = 160
LEAVES_ENGINE = ("up", "images")
"""Commands that may start a container engine, which outlives them."""


def run(app: Callable[..., object], words: Sequence[str] | None = None, name: str | None = None) -> int:
    """Run the command that the arguments name; return its exit code, 2 where it was refused or cannot go on.

    Args:
        app: a command line of Typer.
        words: the arguments; None: those of this process.
        name: what its help calls it; None: as this process was called.
    """
    try:
        code = app(args=words, prog_name=name, standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except typer.TyperException as error:
        return _refuse(error)
    except UserError as error:
        typer.echo(f"✗ {error}", err=True)
        return 2
    except KeyboardInterrupt:
        typer.echo("✗ interrupted; everything that was started has been stopped", err=True)
        return 130
    return code if isinstance(code, int) else 0


def _refuse(error: typer.TyperException) -> int:
    """Say in one line what is wrong with the words, and where to look; an empty command line has its help already."""
    # A field's check is pydantic's, which says in front that it was one.
    if says := error.format_message().replace("Value error, ", "", 1):
        context = getattr(error, "ctx", None)
        where = f" (`{context.command_path} --help` shows what there is)" if context else ""
        typer.echo(f"✗ {says.removesuffix('.')}{where}", err=True)
    return 2


def main(app: Callable[..., object]) -> int:
    """Run guarded: whichever way this ends, no process is left behind; but for an engine that is to stay."""
    return run(app) if sys.argv[1:2] and sys.argv[1] in LEAVES_ENGINE else run_guarded(lambda: run(app))


def console_out() -> Any:
    """A rich console on standard output, wide where no terminal says how wide it is: in a file nothing is cut."""
    from rich.console import Console  # noqa: PLC0415 - commands that need less start sooner

    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)


def run_tool(name: str, *words: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a tool of this environment in the checkout."""
    tool = Path(sys.executable).with_name(name)
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"}
    return subprocess.run([tool, *words], cwd=CHECKOUT, env=environment, capture_output=capture, text=True, check=False)
