"""The operator's command line; wiring only."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.doctor import doctor as examine
from infra.embedded.class_archive import class_archive
from infra.embedded.guard import guarded
from infra.embedded.process import ServerError
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.command import ToolchainError
from infra.toolchain.prepare import CHECKOUT, default_console, prepare

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

RECORDS, KILLS = 200_000, 3


@app.command()
def doctor() -> None:
    """Check this machine; exit code 1 when something needed is missing."""
    raise typer.Exit(examine(cache_root(), CHECKOUT))


@app.command(name="prepare")
def prepare_command() -> None:
    """Find or build the toolchain."""
    prepare()


@app.command()
def demo(
    *,
    seed: Annotated[
        int | None, typer.Option(min=0, help="What is sent and killed; drawn and printed when left out.")
    ] = None,
    job: Annotated[str, typer.Option(help="Which job; there is one so far.")] = "user_counts",
    records: Annotated[int, typer.Option(min=1_000, help="Records of the seeded stream.")] = RECORDS,
    kills: Annotated[int, typer.Option(min=1, help="Executors to SIGKILL.")] = KILLS,
    input: Annotated[Path | None, typer.Option(help="Your own events: .csv, .jsonl or .parquet.")] = None,  # noqa: A002
    key: Annotated[str | None, typer.Option(help="Column of INPUT to count by.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of INPUT that holds the event time.")] = None,
) -> None:
    """Broker, object store and Spark here, executors killed, a verdict; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.harness import subject  # noqa: PLC0415 - commands that need less start sooner
    from tests.harness.demo import Demo  # noqa: PLC0415
    from tests.harness.judge import show  # noqa: PLC0415
    from tests.harness.workload.errors import InputError  # noqa: PLC0415

    if job != "user_counts":
        raise RefusedError(f"there is no job {job!r}; there is: user_counts")
    if input is None and (key or time):
        raise RefusedError("KEY and TIME name columns of a file: give INPUT as well")
    console = default_console()
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    try:
        what = subject.from_file(input, key or "", time or "") if input else subject.seeded(seed, records)
    except InputError as error:
        raise RefusedError(str(error)) from error
    toolchain = prepare(console)
    with console.step("class archive of Spark's JVMs (a training run)", expected_s=40):
        archive = class_archive(Cache(cache_root()), toolchain)
    results = Demo(CHECKOUT, toolchain, what, seed, kills, console, archive).run()
    show(results, console_out())
    raise typer.Exit(results.verdict.exit_code)


@app.command()
def check(run: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/latest")) -> None:
    """Judge a run again from its files; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.harness import judge, report  # noqa: PLC0415

    if not run.is_dir():
        typer.echo(f"✗ there is no run directory {run}; `make demo` makes one", err=True)
        raise typer.Exit(2)
    results = judge.judge(run)
    report.write(run)
    judge.show(results, console_out())
    raise typer.Exit(results.verdict.exit_code)


@app.command()
def lint() -> None:
    """Linters, types, layers."""
    steps = {
        "ruff check": ["ruff", "check", "."],
        "ruff format": ["ruff", "format", "--check", "."],
        "mypy": ["mypy"],
        "layers": ["lint-imports"],
    }
    console = default_console()
    failed = []
    for name, (tool, *words) in steps.items():
        with console.step(name):
            done = _tool(tool, *words, capture=True)
        if done.returncode:
            failed.append(name)
            typer.echo(done.stdout + done.stderr)
    raise typer.Exit(1 if failed else 0)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(
    context: typer.Context, everything: Annotated[bool, typer.Option("--all", help="The slow ones too.")] = False
) -> None:
    """Everything that needs no cluster."""
    prepare()
    words = ["-m", "pytest", *([] if everything else ["-m", "not slow"]), *context.args]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"}
    done = subprocess.run([sys.executable, *words], cwd=CHECKOUT, env=environment, check=False)
    raise typer.Exit(done.returncode)


@app.command()
def lock() -> None:
    """Write requirements.lock anew from requirements.in."""
    with default_console().step("lock"):
        done = _tool("uv", "pip", "compile", "--quiet", "--generate-hashes", "--universal", "--python-version", "3.11",
                     "requirements.in", "--output-file", "requirements.lock", capture=False)  # fmt: skip
    raise typer.Exit(done.returncode)


class RefusedError(Exception):
    """The command line asks for something that is not to be had; the message says what is."""


def console_out() -> Any:
    """A rich console on standard output."""
    from rich.console import Console  # noqa: PLC0415

    return Console(highlight=False, soft_wrap=True)


def _tool(name: str, *words: str, capture: bool) -> subprocess.CompletedProcess[str]:
    """A tool of this environment, run in the checkout."""
    tool = Path(sys.executable).with_name(name)
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"}
    return subprocess.run([tool, *words], cwd=CHECKOUT, env=environment, capture_output=capture, text=True, check=False)


def run() -> int:
    """Run the command that the arguments name; errors that a user can act on are one line."""
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except (ToolchainError, ServerError, RefusedError) as error:
        typer.echo(f"✗ {error}", err=True)
        return 1
    except KeyboardInterrupt:
        typer.echo("✗ interrupted; everything that was started has been stopped", err=True)
        return 130
    return 0


def main() -> int:
    """Run guarded: whichever way this ends, no process is left behind."""
    return guarded(run)


if __name__ == "__main__":
    sys.exit(main())
