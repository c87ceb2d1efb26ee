"""Which tables rows are tried on, asked before each epoch; a table that no trial can speak for is refused (R8)."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import structlog

from effectively_once.epoch import refusals
from effectively_once.epoch.publishing import database_of
from effectively_once.errors import SinkError
from effectively_once.pipeline.job import Job
from effectively_once.sinks.constraints import Added, AskedTable, find_added
from effectively_once.sinks.database import PATIENCE_S, Session, connect, name_error, name_failures

log = structlog.get_logger()


class TableWatch:
    """Asks the database what somebody added to the tables of a pipeline. Keeps a session; asks nothing without tables.

    Args:
        job: the pipeline.
        patience_s: how long the server may stay silent.

    """

    def __init__(self, job: Job, patience_s: float = PATIENCE_S) -> None:
        self._job, self._patience_s = job, patience_s
        self._session: Session | None = None
        self._told: dict[str, Added] = {}

    def find_tried(self) -> tuple[str, ...]:
        """Name the tables that the rows of the next epoch are tried on: those that somebody added constraints to.

        Raises:
            SinkError: a table has a constraint of which no trial can tell, and that nobody trusts.
            PipelineError: Settings, Access or Unreachable, each with what to do.

        """
        return tuple(asked.name[1] for asked in self._list_tables() if self._is_tried(asked))

    def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def _list_tables(self) -> Iterator[AskedTable]:
        pipeline, settings = self._job.pipeline, self._job.settings
        names = {name: (settings.pipeline, name) for name in pipeline.tables}
        for name, shape in pipeline.tables.items():
            others = tuple(other for other in names.values() if other != names[name])
            yield AskedTable(names[name], shape, refusals.shard_columns(pipeline, name), others, settings.shards)

    def _is_tried(self, asked: AskedTable) -> bool:
        name, found = asked.name[1], self._look(asked)
        triable = name in refusals.triable(self._job.pipeline)
        trusted = {*self._job.settings.trusted_constraints}
        beyond = dict.fromkeys([*found.beyond, *found.refers] if triable else found.all)
        if unknown := [what for what in beyond if f"{name}: {what}" not in trusted]:
            raise SinkError(
                f"no trial of its rows can tell what the table refuses: {', '.join(unknown)}",
                f"table {'.'.join(asked.name)}",
                f'Drop it, or name it in the setting `trusted_constraints`, as "{name}: {unknown[0]}": '
                "then what it refuses stops the pipeline once other sinks have shown it.",
            )
        is_tried = triable and bool(found.all) and not found.refers
        if self._told.get(name, Added()) != found:
            self._told[name] = found
            what = "rows are tried on a table before they are shown" if is_tried else "rows are not tried on a table"
            log.info(what, table=name, added=found.all, trusted=tuple(beyond))
        return is_tried

    def _look(self, asked: AskedTable) -> Added:
        address = database_of(self._job.settings)
        there = f"table {'.'.join(asked.name)} at {address.url}"
        with name_failures(there):
            if self._session is not None:
                try:
                    return find_added(self._session, asked)
                except psycopg.Error as error:
                    # It may have ended since the last epoch.
                    if name_error(error, there) is not None:
                        raise
            self.close()
            self._session = connect(address, f"constraints of {self._job.settings.pipeline}", self._patience_s)
            return find_added(self._session, asked)
