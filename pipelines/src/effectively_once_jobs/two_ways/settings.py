"""Settings of one process of the job: those of a pipeline, which way, and which operator of how many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once_jobs.settings_file import read

Way = Literal["snapshots", "dedup"]
SNAPSHOTS: Way = "snapshots"
DEDUP: Way = "dedup"


class WaySettings(PipelineSettings):
    """What a process needs to know beside a pipeline's settings.

    Of those `shards` are the partitions of every topic, and of the state of every operator of a query;
    `epoch_rows_max` bounds a batch of the query, and a turn of an operator.

    Attributes:
        way: snapshots is one process for all operators, dedup one for each.
        operators: how many there are, one behind the other.
        operator: which one of them, from 0 on; of dedup.
        turn_s: how long an operator gathers records for a turn.
        catalog: False leaves the catalog out: the negative control.
        database: where the table of the output is.

    """

    way: Way
    operators: Annotated[int, Field(ge=1, le=64)]
    operator: Annotated[int, Field(ge=0)] = 0
    epoch_rows_max: Annotated[int, Field(ge=1, le=100_000)] = 500
    turn_s: Annotated[float, Field(gt=0, le=60)] = 0.05
    catalog: bool = True
    database: Annotated[str, Field(pattern=r"^postgresql://[^\s/:@?]+:\d+/[^\s/:@?]+$")]

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.operator >= self.operators:
            raise ValueError(f"operator {self.operator} of {self.operators}: they count from 0")
        return self

    @property
    def last(self) -> bool:
        """Whether this operator writes the output."""
        return self.operator == self.operators - 1

    @property
    def between(self) -> list[str]:
        """Topics between operators, of dedup."""
        return [self.reads(number) for number in range(1, self.operators)] if self.way == DEDUP else []

    def reads(self, operator: int) -> str:
        """Topic that an operator of dedup reads."""
        return self.topic if operator == 0 else f"{self.pipeline}.{operator}"


def load(path: Path) -> WaySettings:
    """Read a settings file.

    Raises:
        SettingsError: naming field, value and what is allowed.

    """
    return read(path, WaySettings)
