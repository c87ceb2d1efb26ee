"""A pipeline that its author defined, as a campaign knows it: its settings, its code, and what it says of itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import orjson

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.object_store import BucketAddress
from infra.embedded.job import ASK_S, Job, RunError
from infra.embedded.stack import Endpoints
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import CHECKOUT, Toolchain
from tests.harness.adapters.job_home import PROGRAM, JobHome
from tests.harness.adapters.lake import LakeTables
from tests.harness.adapters.tables import Tables
from tests.harness.checkers.declared import Declaration
from tests.harness.checkers.declared_run import DECLARATION
from tests.harness.collector import Outputs
from tests.harness.controls.names import NegativeControl
from tests.harness.mixture import OPEN
from tests.harness.results import OWN_PIPELINE
from tests.harness.run_directory import RunDirectory
from tests.harness.schemas import SinkSchema
from tests.harness.stall_sorts import Steps
from tests.harness.subject import Subject

CLAIM = (
    "Every record of {input} is in the outputs of {job} as its own transform and declaration say, exactly once, "
    "whatever is killed or stopped: no sink misses, doubles, invents or alters a row."
)
SHARDS = {"shards": 2}
"""Of a job whose settings file does not say."""
_NAMED = re.compile(r"^[\w.]+Error: ")


@dataclass(frozen=True)
class Definition:
    """What a campaign knows of a pipeline.

    Attributes:
        job: its settings, and the wheel of its code.
        toolchain: runs its transform here.
        said: what it says of itself (tests.harness.definition.declared).
    """

    job: Job
    toolchain: Toolchain
    said: Mapping[str, Any]
    module: ClassVar[str] = PROGRAM
    """What its drivers run, of the library's wheel."""
    beside: ClassVar[Path | None] = None
    controls: ClassVar[Sequence[NegativeControl]] = ()
    """They are of `user_counts`."""

    @classmethod
    def at(cls, folder: Path | None, job: str | None, cache: Cache, toolchain: Toolchain) -> Self:
        """Ask the pipeline of a folder, or a job of the library where there is none, in a process of its own.

        Raises:
            RunError: it cannot be imported, is no pipeline, or is one that cannot be judged; with what was said.
            ToolchainError: its package cannot be built.
        """
        found = Job.at(folder, job, cache) if folder is not None else Job.from_library(str(job))
        environment = found.environment(toolchain)
        path = {"PYTHONPATH": f"{environment['PYTHONPATH']}:{CHECKOUT}"}
        argv = [sys.executable, "-m", "tests.harness.definition.declared", "declaration", str(found.settings["job"])]
        whole = {**os.environ, **environment, **path}
        try:
            answer = subprocess.run(argv, env=whole, capture_output=True, text=True, timeout=ASK_S, check=False)
        except subprocess.TimeoutExpired as error:
            told = f"{found.name}: its module is not imported within {ASK_S:.0f} s; see what it does"
            raise RunError(told) from error
        if answer.returncode:
            last = (answer.stderr.strip().splitlines() or ["nothing was said"])[-1]
            raise RunError(f"{found.name}: {_NAMED.sub('', last)}")
        return cls(found, toolchain, orjson.loads(answer.stdout.splitlines()[-1]))

    @property
    def environment(self) -> dict[str, str]:
        """Where its code is found."""
        return self.job.environment(self.toolchain)

    @property
    def settings(self) -> dict[str, Any]:
        """Its own, without addresses."""
        return {**SHARDS, **self.said["defaults"], **self.job.settings}

    @property
    def shards(self) -> int:
        """Of every sink."""
        shards: int = self.settings["shards"]
        return shards

    def settings_on(self, endpoints: Endpoints, subject: Subject, own: Mapping[str, Any]) -> PipelineSettings:
        """Its settings in a run; `own` are those of the run, its addresses among them."""
        bounds = {"s3_bucket": endpoints.s3_bucket, "epoch_rows_max": subject.epoch_rows_max}
        return PipelineSettings.model_validate({**self.settings, **bounds, **own})

    @property
    def has_tables(self) -> bool:
        """Whether it writes to a result store: rows, or which metadata of a lake table is the newest."""
        return bool(self.said["tables"] or self.said["lake"])

    @property
    def left_out(self) -> Mapping[str, str]:
        """Sinks that are not judged, and why."""
        found: Mapping[str, str] = self.said["declaration"]["left_out"]
        return found

    def in_manifest(self, subject: Subject) -> dict[str, Any]:
        """What the manifest of a run tells of it; see `tests.harness.manifest.manifest_of`."""
        settings = self.settings
        return {
            "claim": CLAIM.format(input=subject.named["input"], job=settings["job"]),
            "pipeline": settings["pipeline"],
            "topic": settings["topic"],
            "shards": self.shards,
            "schemas": {name: SinkSchema.model_validate(one) for name, one in self.said["schemas"].items()},
            "code": self.said["code"],
            "named": {"campaign": OWN_PIPELINE, "job": settings["job"], **subject.named},
        }

    def steps(self, *, early: bool = False) -> dict[str, Any]:
        """Steps that it announces in every epoch with accepted records, as `tests.harness.mixture.plan` takes them.

        Args:
            early: only those that have half of the epoch's work still before them (`schedule.EARLY_STEPS`).
        """
        declaration, tables = self.said["declaration"], self.said["tables"]
        topics = tuple(sink for sink in self.said["rows"] if sink not in tables)
        # At least once a topic has no transaction; a table has one all the same.
        bare = topics if self.settings.get("semantics") == "at_least_once" else ()
        committing = [sink for sink in self.said["rows"] if sink not in bare]
        commits: Steps = tuple((step, sink) for sink in committing for step in (OPEN, "committed"))
        ids: Steps = (("ids_decided", None),) if declaration["attached"] else ()
        windows: Steps = (("windows_decided", None),) if declaration["aggregates"] and not early else ()
        return {
            "steps": (*commits, *ids, *windows),
            "table": tuple(one for one in commits if one[1] in tables),
            "opens": tuple((OPEN, sink) for sink in topics if sink not in bare),
            "rows": topics,
        }

    def outputs(
        self,
        directory: RunDirectory,
        settings: PipelineSettings,
        endpoints: Endpoints,
        tables: Tables | None,
        make: Callable[[Path], None],
    ) -> Outputs:
        """What a run collects of it; the judge is told what that is.

        Args:
            directory: of the run.
            settings: of its pipeline in this run.
            endpoints: of the stack.
            tables: of it.
            make: makes them.
        """
        kept = {name: getattr(settings, name) for name in ("pipeline", "window_ms", "lateness_ms")}
        document = {**self.said["declaration"], **kept}
        directory.write_json(directory.observed / DECLARATION, document)
        home = JobHome(self.toolchain, endpoints, directory.path, environment=self.environment)
        job = self.settings["job"]
        bucket = BucketAddress(endpoints.s3_endpoint, settings.s3_bucket)
        lake = LakeTables(tables, bucket) if tables is not None and self.said["lake"] else None
        return Outputs(
            Declaration.of(document),
            self.said["kafka"],
            tables if self.has_tables else None,
            lambda source, given: home.transform(job, source, given),
            make if self.has_tables else lambda _: None,
            lake,
        )
