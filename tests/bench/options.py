"""Options that several cases have, and the order in which the arms of a round take turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import AfterValidator, BaseModel, ConfigDict

Master = Annotated[Literal["local", "cluster"], typer.Option(help="Of Spark: one JVM, or driver and two executors.")]
"""One of `place.MASTERS`."""


class Asked(BaseModel):
    """What a case is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def words(self) -> str:
        """The options that were named, as on a command line."""
        named = ((name, getattr(self, name)) for name in type(self).model_fields if name in self.model_fields_set)
        return " ".join(f"--{name.replace('_', '-')} {_spell(value)}" for name, value in named)


class Rounds(Asked):
    """What a measurement of several rounds is asked for."""

    rounds: Annotated[int, typer.Option(min=1, help="How often each arm is measured.")] = 5
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with a measurement that was interrupted.")
    ] = None


def among(known: Collection[str]) -> AfterValidator:
    """Take only what is known, in an option of several values."""

    def check(values: list[str]) -> list[str]:
        if unknown := [one for one in values if one not in known]:
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(map(repr, known))}")
        return values

    return AfterValidator(check)


def pick(asked: Asked, *names: str) -> dict[str, Any]:
    """Return some of the options, as settings of a measurement."""
    return {name: getattr(asked, name) for name in names}


def in_turn(arms: Sequence[str], number: int) -> list[str]:
    """Order the arms of a round: each is the first one as often as another."""
    turn = number % len(arms)
    return [*arms[turn:], *arms[:turn]]


def _spell(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
