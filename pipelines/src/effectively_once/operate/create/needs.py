"""What a deployment makes for a job that no declaration of sinks tells of: further topics, and tables by their SQL.

The job's module says so by a function `needs(settings)`, which gets the whole of its settings file. A program that is
no declared pipeline (`module` of a deployment) needs no more than that; a declared one may have it beside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from effectively_once.errors import SettingsError
from effectively_once.pipeline.job import ATTRIBUTE as DECLARATION
from effectively_once.pipeline.job import module_of
from effectively_once.sinks.database import DatabaseAddress, connect, name_failures

ATTRIBUTE = "needs"


@dataclass(frozen=True)
class Needs:
    """What is made.

    Attributes:
        topics: names; each gets as many partitions as the source.
        config: of these topics, and of the source where it is made: Kafka's names and values.
        schema: SQL that makes schemas and tables in the database, and is safe to run again; empty: nothing.

    """

    topics: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""


NOTHING = Needs()


def needs_of(job: str, settings: Path) -> Needs:
    """Ask the module of a job.

    Args:
        job: `module`, or `module:name` of a declaration.
        settings: the file that its program reads.

    Raises:
        SettingsError: the module cannot be imported, or refuses what it reads.

    """
    asked: Callable[[Mapping[str, Any]], Needs] | None = getattr(module_of(job), ATTRIBUTE, None)
    if asked is None:
        return NOTHING
    try:
        return asked(json.loads(settings.read_bytes()))
    except (OSError, ValueError, KeyError) as error:
        raise SettingsError(
            f"its job cannot tell what it needs: {type(error).__name__}: {error}", str(settings), "Correct it."
        ) from error


def undeclared(job: str) -> bool:
    """Whether a job is a program that only says what it needs. Raises SettingsError."""
    module = module_of(job)
    return ":" not in job and hasattr(module, ATTRIBUTE) and not hasattr(module, DECLARATION)


def make_schema(database: str | None, needs: Needs, *, patience_s: float, say: Callable[[str], object]) -> None:
    """Run the SQL of a job in one transaction. Safe to run again, and with others at once.

    Raises:
        SettingsError: there is SQL, and the settings name no database.
        SinkError: the server refuses it.
        PipelineError: Access or Unreachable, as `connect` does.

    """
    if not needs.schema:
        return
    if database is None:
        raise SettingsError(
            "the job has tables and no database is set",
            "settings: database",
            "Set it: postgresql://host:port/database.",
        )
    address = DatabaseAddress(database)
    with (
        name_failures(f"schema of the job at {address.url}"),
        connect(address, "create the job's schema", patience_s) as session,
        session.transaction(),
    ):
        # As for the tables of sinks: of two that make a schema at once one would fail.
        session.execute("SELECT pg_advisory_xact_lock(hashtext('effectively_once'))")
        session.execute(needs.schema.encode())
    say("the job's own tables are there")
