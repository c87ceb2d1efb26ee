"""The results of a run, as `results.json` has them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, Field

from tests.experiments.figures import Claim, Figures, Model
from tests.harness.results import Verdict

P = TypeVar("P")
F = TypeVar("F", bound=Figures)


class Results(Model, Generic[P, F]):
    """All of it.

    Attributes:
        command: repeats it.
        jvm: where it was played: JVMs of this machine, or pods.
        machine: cores, memory, load and versions, when it began.
        arms: figures of each of which there is usable evidence.
        unread: arms of which there is no usable evidence, or not to the end, with the reason.
        claims: `signs` in the file, as results that are kept have it.

    """

    model_config = ConfigDict(populate_by_name=True)

    run: str
    command: str
    jvm: str
    machine: dict[str, Any]
    git: dict[str, Any]
    plan: P
    arms: list[F]
    unread: dict[str, str]
    claims: list[Claim] = Field(validation_alias="signs", serialization_alias="signs")
    verdict: Verdict


TOLD = ("run", "command", "jvm", "machine", "git")
"""What results repeat of a run's manifest."""
