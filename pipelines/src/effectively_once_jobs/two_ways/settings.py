"""Settings of one process of the job: which way, and which operator of how many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from effectively_once.errors import SettingsError
from effectively_once.object_store import BucketAddress
from effectively_once.settings import Name, PipelineSettings

Way = Literal["snapshots", "dedup"]
SNAPSHOTS: Way = "snapshots"
DEDUP: Way = "dedup"


class WaySettings(BaseModel):
    """What a process needs to know.

    Attributes:
        pipeline: its identity; objects, topics and the table carry it.
        way: snapshots is one process for all operators, dedup one for each.
        operators: how many there are, one behind the other.
        operator: which one of them, from 0 on; of dedup.
        topic: what the first operator reads.
        partitions: of every topic, and of the state of every operator of a query.
        rows_max: records of a batch of the query, or of a turn of an operator, at most.
        turn_s: how long an operator gathers records for a turn.
        catalog: False leaves the catalog out: the negative control.
        kafka_bootstrap, s3_endpoint, s3_bucket, database: where servers are; credentials are in the environment.

    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    pipeline: Name
    way: Way
    operators: Annotated[int, Field(ge=1, le=64)]
    operator: Annotated[int, Field(ge=0)] = 0
    topic: str
    partitions: Annotated[int, Field(ge=1, le=64)] = 2
    rows_max: Annotated[int, Field(ge=1, le=100_000)] = 500
    turn_s: Annotated[float, Field(gt=0, le=60)] = 0.05
    catalog: bool = True
    kafka_bootstrap: str
    s3_endpoint: str
    s3_bucket: str
    database: Annotated[str, Field(pattern=r"^postgresql://[^\s/:@?]+:\d+/[^\s/:@?]+$")]

    @model_validator(mode="after")
    def _possible(self) -> WaySettings:
        if self.operator >= self.operators:
            raise ValueError(f"operator {self.operator} of {self.operators}: they count from 0")
        return self

    @property
    def bucket(self) -> BucketAddress:
        """Address of the bucket."""
        return BucketAddress(self.s3_endpoint, self.s3_bucket)

    @property
    def last(self) -> bool:
        """Whether this operator writes the output."""
        return self.operator == self.operators - 1

    def reads(self, operator: int) -> str:
        """Topic that an operator of dedup reads."""
        return self.topic if operator == 0 else f"{self.pipeline}.{operator}"

    def library(self) -> PipelineSettings:
        """The settings as the library's source and session take them."""
        return PipelineSettings(
            pipeline=self.pipeline, topic=self.topic, kafka_bootstrap=self.kafka_bootstrap,
            s3_endpoint=self.s3_endpoint, s3_bucket=self.s3_bucket, job="effectively_once_jobs.two_ways",
            shards=self.partitions, epoch_rows_max=self.rows_max,
        )  # fmt: skip


def load(path: Path) -> WaySettings:
    """Read a settings file.

    Raises:
        SettingsError: naming field, value and what is allowed.

    """
    try:
        return WaySettings.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"settings cannot be read: {error.strerror}", str(path), "Name a readable file.") from error
    except ValidationError as wrong:
        first = wrong.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        raise SettingsError(
            f"{field}: {first['msg']}", str(path), f"Fields are {', '.join(WaySettings.model_fields)}."
        ) from wrong
