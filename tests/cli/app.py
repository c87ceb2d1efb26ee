"""The program that the commands are registered with."""

from __future__ import annotations

from importlib import import_module

import typer

from infra import cli

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(cli.app)
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(name: str, program: str, says: str) -> None:
    """Register a command that is a program of its own: it reads the words, `--help` among them."""

    @app.command(name, help=says, context_settings={**PASS_ON, "help_option_names": []})
    def _(context: typer.Context) -> None:
        raise typer.Exit(import_module(program).main(context.args))
