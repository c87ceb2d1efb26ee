"""The commands for who changes the project."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from infra.command_line import run_tool
from infra.errors import RefusedError, UserError
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.chromium import ensure_chromium
from infra.toolchain.jdk import find_jdk
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from tests.cli.app import PASS_ON, app, register
from tests.depth import SLICED

register(
    "planted",
    "tests.planted.run",
    "Bugs planted in a copy of the product, one at a time; exit 0 all are caught, 1 one is not, 2 nothing to say.",
)
register(
    "mutants",
    "tests.mutants.run",
    "Mechanical mutants of the core, by module; exit 0 enough are killed, 1 too few, 2 nothing to say.",
)
register(
    "tampered",
    "tests.tampered.run",
    "Alterations of a run's evidence, one at a time; exit 0 all are caught, 1 one is not, 2 nothing to say.",
)
register(
    "fuzz",
    "tests.fuzz.run",
    "Any record, declaration and settings, through all sinks; exit 0 all hold, 1 one does not, 2 nothing to say.",
)
register(
    "bench",
    "tests.bench.__main__",
    "Measure a case; tables of ratios, raw samples and figures below runs/bench.",
)


@app.command()
def lint() -> None:
    """Linters, types, layers."""
    steps = {
        "ruff check": ["ruff", "check", "."],
        "ruff format": ["ruff", "format", "--check", "."],
        "mypy": ["mypy"],
        "layers": ["lint-imports"],
        "circles": ["lint-imports", "--config", ".importlinter-circles"],
    }
    console = default_console()
    failed = []
    for name, (tool, *words) in steps.items():
        with console.step(name):
            done = run_tool(tool, *words, capture=True)
        if done.returncode:
            failed.append(name)
            typer.echo(done.stdout + done.stderr)
    raise typer.Exit(1 if failed else 0)


class Extent(StrEnum):
    """How many of the tests."""

    QUICK = "quick"
    CORE = "core"
    ALL = "all"


WHICH = {
    Extent.QUICK: ["-m", "not slow and not deep and (quick or not (spark or stack))"],
    Extent.CORE: ["-m", "not slow and (core or not spark)"],
    Extent.ALL: [],
}
"""Words of pytest. The marks are explained in pyproject.toml; a test of Spark that has none is left to `all`."""
WORKERS = {Extent.QUICK: "3", Extent.CORE: "2", Extent.ALL: "2"}
"""Three fill two processors while one waits for processes and clocks; beside Spark and servers they starve these."""


@app.command(context_settings=PASS_ON)
def test(
    context: typer.Context,
    extent: Annotated[Extent, typer.Option(help="quick, core: what guards the protocol too, all")] = Extent.QUICK,
    at: Annotated[Path | None, typer.Option(help="A folder as `new-pipeline` makes it: its tests instead.")] = None,
) -> None:
    """Tests that need no cluster."""
    if at is not None:
        raise typer.Exit(_tests_of(at, context.args))
    console = default_console()
    prepare(console)
    if extent is Extent.ALL:
        with console.step("Chromium for the tests of pages"):
            try:
                ensure_chromium(Cache(cache_root()))
            except UserError as error:
                console.say(f"… left out: {error}")
    elif extent is Extent.QUICK:
        os.environ[SLICED] = "1"
    # Each worker reads all tests and many a test starts a Python: what they import is compiled once, as Python does
    # unless the caller's shell says otherwise.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    words = ("-m", "pytest", "--durations=30", "-n", WORKERS[extent], *WHICH[extent], *context.args)
    raise typer.Exit(run_tool("python", *words).returncode)


def _tests_of(folder: Path, words: list[str]) -> int:
    """Run the tests of a pipeline of the user's, with the library of this checkout."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT / "pipelines" / "src"),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(find_jdk().java.parent.parent),
    }
    try:
        done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=folder, env=environment, check=False)
    except OSError as error:
        raise RefusedError(f"AT={folder}: {error.strerror}; `make new-pipeline` makes such a folder") from error
    return done.returncode
