"""The packaged pipeline `user_counts`, as a campaign on this machine strikes it; see `Definition` for any other one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from effectively_once.pipeline.settings import PipelineSettings
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import CHECKOUT
from tests.harness import with_table
from tests.harness.adapters.tables import Tables
from tests.harness.collector import USER_COUNTS as USUAL_OUTPUTS
from tests.harness.collector import Outputs, with_rows
from tests.harness.controls.names import EVERY, NegativeControl
from tests.harness.definition.asked import Definition
from tests.harness.manifest import code_of
from tests.harness.mixture import TABLE
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import EARLY_STEPS, STEPS
from tests.harness.schemas import USER_COUNTS as SCHEMAS
from tests.harness.schemas import WITH_TABLE
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.subject import Subject

PIPELINE, TOPIC, SHARDS = "user_counts", "events", 2
JOB = "effectively_once_jobs.user_counts"
UNPROVEN = "without_proof"
UNPROVEN_JOB = f"tests.harness.{UNPROVEN}"
"""The module in the folder above; only named, as whoever imports it goes without proof."""
CLAIM = (
    "Every event in time is counted exactly once per user and minute, whichever executors, drivers, workers, brokers "
    "and stores are killed or stopped: no sink misses, doubles, invents or alters a record, and no reader sees one "
    "change."
)


@dataclass(frozen=True)
class UserCounts:
    """What a campaign knows of it, by the names that `Definition` has for this.

    Attributes:
        checkout: where its code is, and the harness, which has the two jobs beside it.
        has_tables: whether its accepted rows go to a table too.
        unproven: whether it goes without proof that a shard's input is whole; then it has no table.
        controls: the negative controls that are played beside it.
    """

    checkout: Path = CHECKOUT
    has_tables: bool = False
    unproven: bool = False
    controls: Sequence[NegativeControl] = EVERY
    environment: ClassVar[Mapping[str, str]] = {}
    shards: ClassVar[int] = SHARDS

    @property
    def module(self) -> str:
        """What its drivers run."""
        if self.unproven:
            return UNPROVEN_JOB
        return with_table.JOB if self.has_tables else JOB

    @property
    def beside(self) -> Path | None:
        """Where that module is found; None: in the library's wheel."""
        return None if self.module == JOB else self.checkout

    def steps(self, *, early: bool = False) -> dict[str, Any]:
        """Steps that it announces in every epoch, as `Definition.steps` says them."""
        return {"steps": EARLY_STEPS if early else STEPS, "table": TABLE}

    def settings_on(self, endpoints: Endpoints, subject: Subject, own: Mapping[str, Any]) -> PipelineSettings:
        """Its settings in a run; `own` are those of the run, its addresses among them."""
        return pipeline_settings(endpoints, subject).model_copy(update={"job": self.module, **own})

    def in_manifest(self, subject: Subject) -> dict[str, Any]:
        """What the manifest of a run tells of it; see `tests.harness.manifest.manifest_of`."""
        return {
            "claim": CLAIM,
            "pipeline": PIPELINE,
            "topic": TOPIC,
            "shards": SHARDS,
            "schemas": WITH_TABLE if self.has_tables else SCHEMAS,
            # Drivers without proof run code of this package; those that repair what comes of it, the product's.
            "code": code_of(self.checkout, *[self.checkout / "tests"] * self.unproven),
            "named": {"campaign": "embedded", **subject.named},
        }

    def outputs(
        self,
        _directory: RunDirectory,
        _settings: PipelineSettings,
        _endpoints: Endpoints,
        tables: Tables | None,
        _make: Callable[[Path], None],
    ) -> Outputs:
        """What a run collects of it; its table is made as the harness makes it."""
        if tables is None:
            return USUAL_OUTPUTS
        shape = with_table.pipeline.tables[ACCEPTED_ROWS]
        return with_rows(tables, lambda _: tables.make(ACCEPTED_ROWS, shape, SHARDS))


AnyPipeline = UserCounts | Definition
USER_COUNTS = UserCounts()


def pipeline_settings(endpoints: Endpoints, subject: Subject) -> PipelineSettings:
    """The settings file's content for a stack and what is to be sent."""
    return PipelineSettings(
        pipeline=PIPELINE,
        topic=TOPIC,
        job=JOB,
        kafka_bootstrap=endpoints.kafka_bootstrap,
        shards=SHARDS,
        s3_endpoint=endpoints.s3_endpoint,
        s3_bucket=endpoints.s3_bucket,
        window_ms=subject.window_ms,
        lateness_ms=subject.lateness_ms,
        epoch_rows_max=subject.epoch_rows_max,
        dense_offsets=True,
    )
