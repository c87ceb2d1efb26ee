"""The operator's command line; wiring only."""

from __future__ import annotations

import sys

import typer

from infra.doctor import doctor as examine
from infra.embedded.guard import guarded
from infra.toolchain.cache import cache_root
from infra.toolchain.command import ToolchainError
from infra.toolchain.prepare import CHECKOUT, prepare

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def doctor() -> None:
    """Check this machine; exit code 1 when something needed is missing."""
    raise typer.Exit(examine(cache_root(), CHECKOUT))


@app.command(name="prepare")
def prepare_command() -> None:
    """Find or build the toolchain."""
    try:
        prepare()
    except ToolchainError as error:
        typer.echo(f"✗ {error}", err=True)
        raise typer.Exit(1) from error


def main() -> int:
    """Run the command that the arguments name, guarded."""

    def run() -> int:
        app()
        return 0

    return guarded(run)


if __name__ == "__main__":
    sys.exit(main())
