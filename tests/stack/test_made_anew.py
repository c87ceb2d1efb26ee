"""A table, or the topic of statements, that was made anew between two runs: a start refuses it (R10)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from effectively_once.errors import SinkError, SourceError
from effectively_once.pipeline.job import job_of
from effectively_once.sources.statement import topic_of
from infra.embedded.postgres import PostgresServer
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from tests.stack.lines import ROWS, Lines

pytestmark = pytest.mark.stack


def test_a_table_that_was_made_anew_is_refused_until_it_is_back(lines: Lines, database: PostgresServer) -> None:
    """Its marks are where they should be, and all former rows are gone: only what it is tells.

    Made again with every row, it is taken once an operator says that it is whole.
    """
    lines.start("first").run(2)
    lines.start("second").run(1)
    table, before = f'"{lines.layout.pipeline}"."rows"', lines.head()
    with database.connect() as session:
        session.execute(f"ALTER TABLE {table} RENAME TO former")
        former = f'"{lines.layout.pipeline}".former'
        session.execute(f"CREATE TABLE {table} (LIKE {former} INCLUDING ALL EXCLUDING COMMENTS)")
    for _ in range(2):
        with pytest.raises(
            SinkError, match=r"the table was deleted and created again: its id was [0-9a-f]{32} and is \d+ "
        ) as refused:
            lines.start("third")
        assert lines.head() == before, "nobody was fenced"
        lines.create()
    with database.connect() as session:
        session.execute(f"INSERT INTO {table} SELECT * FROM {former}")  # noqa: S608
        statement = re.search(r"`(COMMENT ON TABLE .*);`", str(refused.value))
        assert statement is not None
        session.execute(statement[1].encode())
    lines.start("third").run(1)
    lines.assert_exact(4)


def test_a_table_of_somebody_elses_making_is_known_by_its_oid(lines: Lines, database: PostgresServer) -> None:
    """As one that an older version made."""
    table = f'"{lines.layout.pipeline}"."rows"'
    with database.connect() as session:
        session.execute(f"COMMENT ON TABLE {table} IS 'ours'")
    lines.start("first").run(1)
    lines.start("second").run(1)
    with database.connect() as session:
        session.execute(f"DROP TABLE {table}")
        session.execute(f"CREATE TABLE {table} (n bigint)")
    with pytest.raises(SinkError, match=r"its id was \d+ and is \d+ \(table "):
        lines.start("third")


def test_a_topic_of_statements_that_was_made_anew_is_refused_until_it_is_taken(
    stack: EmbeddedStack, pipeline: str, tmp_path: Path, admin: AdminClient
) -> None:
    lines = Lines(stack, "postgresql://127.0.0.1:1/none", pipeline, tmp_path, job="timed")

    def with_sources(*sources: str) -> None:
        changed = lines.settings.model_copy(update={"sources": sources, "idle_ms": 10_000})
        lines.settings = changed
        lines.file.write_text(changed.model_dump_json())
        lines.job = job_of(lines.file)

    with_sources("gate")
    lines.create()
    lines.start("first").run(1)
    name = topic_of(lines.settings.topic)
    admin.delete_topics([name])[name].result(30)
    wait_for(f"{name} gone", 30, lambda: name not in admin.list_topics(timeout=30).topics)
    lines.create()
    before = lines.head()
    with pytest.raises(SourceError, match=rf"the topic was deleted and created again: .*\(topic {re.escape(name)}\)"):
        lines.start("second")
    assert lines.head() == before, "nobody was fenced"
    with_sources()
    lines.start("second")
    with_sources("gate")
    lines.start("third").run(1)
    assert lines.visible("accepted") == list(range(2 * ROWS))
