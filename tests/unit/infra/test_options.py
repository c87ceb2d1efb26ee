"""Options of a command are the fields of a model; what is wrong with a command line is one line before work begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import pytest
import typer
from pydantic import BaseModel, BeforeValidator, Field, model_validator

from infra.options import ask

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """Does something."""

    seed: Annotated[int, typer.Option(help="Draws.")] = 1
    only: Annotated[list[str] | None, typer.Option(metavar="NAME...")] = None
    quick: Annotated[bool, typer.Option("--quick")] = False
    on: Annotated[Literal["here", "there"], typer.Option()] = "here"


class Checked(BaseModel):
    """Does it for so long."""

    stall_s: Annotated[
        tuple[float, ...], Field(max_length=2), BeforeValidator(lambda text: text.split(",")), typer.Option()
    ] = (3.0, 0.5)
    rate: Annotated[float | None, Field(gt=0), typer.Option()] = None

    @model_validator(mode="after")
    def _together(self) -> Checked:
        if self.rate is not None and len(self.stall_s) == 1:
            raise ValueError("--rate needs two lengths")
        return self


def asked(kind: type[T], *words: str) -> T:
    found: list[T] = []
    assert ask(kind, lambda one: found.append(one) or 7, words, name="do") == 7  # type: ignore[func-returns-value]
    return found.pop()


def refused(kind: type[object], capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert ask(kind, lambda _: pytest.fail("work began"), words, name="do") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("✗ ")
    return line.removeprefix("✗ ")


def test_what_is_not_named_is_as_usual() -> None:
    assert asked(Asked) == Asked()
    assert asked(Checked) == Checked()


def test_an_option_takes_several_values_one_after_the_other_or_is_repeated() -> None:
    assert asked(Asked, "--only", "a", "b", "--seed", "2", "--only", "c") == Asked(2, ["a", "b", "c"])


def test_only_an_option_of_several_values_takes_more_than_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Got unexpected extra argument(s) (3)" in refused(Asked, capsys, "--seed", "2", "3")
    assert "Got unexpected extra argument(s) (a)" in refused(Asked, capsys, "--quick", "a")


def test_lengths_are_one_value_with_commas() -> None:
    assert asked(Checked, "--stall-s", "12,40").stall_s == (12.0, 40.0)


@pytest.mark.parametrize(
    ("kind", "words", "says"),
    [
        (Asked, ["--sed", "1"], "No such option: --sed (Possible options: --seed) (`do --help` shows what there is)"),
        (Asked, ["--seed", "x"], "Invalid value for '--seed'"),
        (Asked, ["--only"], "'--only' requires an argument"),
        (Asked, ["--on", "her"], "Invalid value for '--on': 'her' is not one of 'here', 'there'"),
        (Checked, ["--stall-s", "1,x"], "--stall-s: Input should be a valid number"),
        (Checked, ["--stall-s", "1,2,3"], "--stall-s: Tuple should have at most 2 items"),
        (Checked, ["--rate", "0"], "--rate: Input should be greater than 0"),
        (Checked, ["--rate", "1", "--stall-s", "1"], "--rate needs two lengths"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    kind: type[object], words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refused(kind, capsys, *words)


def test_help_shows_every_option_and_begins_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(Asked, lambda _: pytest.fail("work began"), ["--help"], name="do") == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("Does something.", "--seed", "--only", "--quick"))
