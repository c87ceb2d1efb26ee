"""The table that a pipeline on a cluster writes beside its other sinks, where the stack has a PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness import with_table
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.pod_database import PodDatabase, secret_name
from tests.harness.adapters.tables import Tables
from tests.harness.collector import Collector
from tests.harness.play.table_collector import TableCollector
from tests.harness.run_directory import RunDirectory
from tests.harness.sinks import ACCEPTED_ROWS


@dataclass
class ResultTable:
    """`accepted_rows` in the platform's PostgreSQL, and the job that writes it, as a file beside the wheel.

    Attributes:
        database: where it is.
    """

    database: PodDatabase
    _held: ExitStack = field(default_factory=ExitStack, init=False)

    @property
    def settings(self) -> dict[str, Any]:
        """What settings of a pipeline with the table say else."""
        return {"job": with_table.MODULE, "database": self.database.inside}

    def values(self, values: Mapping[str, Any], run: str) -> dict[str, Any]:
        """Values of the chart, with the job's file and its pods' credentials."""
        job = {f"{with_table.MODULE}.py": Path(with_table.__file__).read_text(encoding="utf-8")}
        return {
            **values,
            "databaseSecret": secret_name(run),
            "extraFiles": {**values.get("extraFiles", {}), **job},
        }

    @contextmanager
    def lent(self, pipelines: Cluster, run: str) -> Iterator[None]:
        """Have the database for a run; afterwards everything of it there is deleted."""
        with self._held:
            self._held.callback(self.database.close)
            self.database.open(pipelines, run)
            yield

    def begin(self, directory: RunDirectory, other: Collector, pipeline: str, shards: int) -> TableCollector:
        """Make the table of a pipeline that is about to start; what collects it beside the other sinks.

        Raises:
            PipelineError: it cannot be made (`effectively_once.sinks.tables.make`).
        """
        tables = Tables(self.database, pipeline)
        tables.make(ACCEPTED_ROWS, with_table.pipeline.tables[ACCEPTED_ROWS], shards)
        self._held.callback(tables.drop)
        return TableCollector(directory, other, tables)
