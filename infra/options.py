"""The options of a command as the fields of a model: declared once, shown by `--help`, checked before work begins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from pydantic import ValidationError
from typer.core import TyperCommand

from infra.command_line import run
from infra.errors import RefusedError

T = TypeVar("T")


class Several(TyperCommand):
    """A command whose options that take several values take them one after the other: `--only a b`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat such an option before each of its values."""
        several = {word for one in self.params if getattr(one, "multiple", False) for word in one.opts}
        words, option = [""], ""
        for word in args:
            if word.startswith("--"):
                option = word
            elif option in several and words[-1] != option:
                words.append(option)
            words.append(word)
        return super().parse_args(ctx, words[1:])


def ask(kind: Callable[..., T], act: Callable[[T], int], words: Sequence[str] | None = None, *, name: str) -> int:
    """Read a command line into a model, and act; returns the exit code, 2 where the words are refused.

    Args:
        kind: a dataclass or a model of pydantic; its fields are annotated with `typer.Option`, its docstring is help.
        act: does what is asked for.
        words: the arguments; None: those of this process.
        name: of the command, in its help.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    add_command(app, kind, act, name=name)
    return run(app, words, name)


def add_command(app: typer.Typer, kind: Callable[..., T], act: Callable[[T], int], *, name: str) -> None:
    """Add a command whose options are the fields of a model; the arguments are those of `ask`."""

    def command(**fields: Any) -> int:
        return act(_check(kind, fields))

    hints = get_type_hints(kind, include_extras=True)
    parameters = [_parameter(one, hints[one.name]) for one in inspect.signature(kind).parameters.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    app.command(name, cls=Several, help=inspect.getdoc(kind))(command)


def _parameter(field: inspect.Parameter, hint: Any) -> inspect.Parameter:
    kind, *about = get_args(hint)
    default = field.default
    if get_origin(kind) is tuple:
        hint, default = Annotated[(str, *about)], ",".join(f"{one:g}" for one in default)
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _check(kind: Callable[..., T], fields: dict[str, Any]) -> T:
    try:
        return kind(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"--{str(name).replace('_', '-')}: " for name in first["loc"][:1])
        raise RefusedError(where + first["msg"].removeprefix("Value error, ")) from error
