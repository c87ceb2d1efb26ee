"""Settings of the job: those of a pipeline, the deadline, and the analyzers' windows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once_jobs.settings_file import read


class FraudSettings(PipelineSettings):
    """What the job needs to know beside a pipeline's settings.

    Attributes:
        database: the result store.
        deadline_ms: how long after a transaction's arrival in Kafka it is decided at the latest.
        target_ms: how long after it the decision is to be stored; one that comes later is called late.
        average_window_ms: how far back the average ticket looks.
        count_window_ms: how far back transactions are counted.
        proximity_window_ms: how far back a transaction at another place is looked for.
        held_max: decisions that are made or due and not stored; with so many no more transactions are read.

    """

    database: Annotated[str, Field(pattern=r"^postgresql://[^\s/:@?]+:\d+/[^\s/:@?]+$")]
    deadline_ms: Annotated[int, Field(ge=1, le=60_000)] = 14
    target_ms: Annotated[int, Field(ge=1, le=60_000)] = 20
    average_window_ms: Annotated[int, Field(ge=1)] = 3_600_000
    count_window_ms: Annotated[int, Field(ge=1)] = 60_000
    proximity_window_ms: Annotated[int, Field(ge=1)] = 3_600_000
    held_max: Annotated[int, Field(ge=10, le=1_000_000)] = 20_000

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.deadline_ms >= self.target_ms:
            raise ValueError(f"deadline_ms {self.deadline_ms} is not before target_ms {self.target_ms}")
        return self

    @property
    def scores(self) -> str:
        """Topic of the scores; it has as many partitions as that of the transactions."""
        return f"{self.pipeline}.scores"

    @property
    def windows_ms(self) -> dict[str, int]:
        """Analyzer -> its window."""
        return {
            "average": self.average_window_ms,
            "count": self.count_window_ms,
            "proximity": self.proximity_window_ms,
        }


def load(path: Path) -> FraudSettings:
    """Read a settings file.

    Raises:
        SettingsError: naming field, value and what is allowed.

    """
    return read(path, FraudSettings)
