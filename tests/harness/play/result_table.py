"""The tables that a pipeline on a cluster writes beside its other sinks, where the stack has a PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness import with_table
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.pod_database import PodDatabase
from tests.harness.adapters.tables import Tables
from tests.harness.collector import Outputs, with_rows
from tests.harness.sinks import ACCEPTED_ROWS


@dataclass
class ResultTable:
    """Tables in the platform's PostgreSQL: `accepted_rows`, with the job that writes it as a file beside the wheel.

    Attributes:
        database: where they are.
        defined: whether they are those of a pipeline that its author defined.
    """

    database: PodDatabase
    defined: bool = False
    _held: ExitStack = field(default_factory=ExitStack, init=False)

    @property
    def settings(self) -> dict[str, Any]:
        """What settings of a pipeline with the table say else."""
        job = {} if self.defined else {"job": with_table.MODULE}
        return {**job, "database": self.database.inside}

    def values(self, values: Mapping[str, Any], run: str) -> dict[str, Any]:
        """Values of the chart, with the job's file and its pods' credentials."""
        whole = {**values, **self.database.values(run)}
        if self.defined:
            return whole
        job = {f"{with_table.MODULE}.py": Path(with_table.__file__).read_text(encoding="utf-8")}
        return {**whole, "extraFiles": {**values.get("extraFiles", {}), **job}}

    @contextmanager
    def lent(self, pipelines: Cluster, run: str) -> Iterator[None]:
        """Have the database for a run; afterwards everything of it there is deleted."""
        with self._held:
            self._held.callback(self.database.close)
            self.database.open(pipelines, run)
            yield

    def tables(self, pipeline: str) -> Tables:
        """Those of a pipeline."""
        return Tables(self.database, pipeline)

    def outputs(self, pipeline: str, shards: int) -> Outputs:
        """What `user_counts` writes to, its table among it, which is made before it starts and dropped afterwards."""
        tables = self.tables(pipeline)

        def make(_: Path) -> None:
            tables.make(ACCEPTED_ROWS, with_table.pipeline.tables[ACCEPTED_ROWS], shards)
            self.drop_later(tables)

        return with_rows(tables, make)

    def drop_later(self, tables: Tables) -> None:
        """Have tables that were made dropped when the database is given back."""
        self._held.callback(tables.drop)
