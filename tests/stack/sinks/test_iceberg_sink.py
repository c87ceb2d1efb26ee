"""The Iceberg sink on a real database and store: made, made anew, read by a reader, and with the rights it needs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from effectively_once import read_lake_table
from effectively_once.errors import AccessError, SinkError
from effectively_once.ledger import digest
from effectively_once.sinks import database, lake_tables
from effectively_once.sinks.database import PASSWORD
from effectively_once.sinks.iceberg import IcebergSink
from effectively_once.sinks.lake_catalog import open_catalog
from effectively_once.sinks.publish import Mark, Published
from effectively_once.store.object_store import shared_store
from tests.harness.adapters.lake import LakeTables
from tests.harness.adapters.tables import Tables
from tests.harness.evidence import EvidenceError
from tests.stack.sinks.adapter import Place
from tests.stack.sinks.counts_table import as_owner
from tests.stack.sinks.iceberg_sink import SHAPE, IcebergAdapter
from tests.stack.sinks.manifest_sink import make_bucket
from tests.stack.sinks.servers import Servers

pytestmark = pytest.mark.stack


@pytest.fixture
def adapter(place: Place, credentials: None) -> IcebergAdapter:
    """Have a bucket, and no table."""
    make_bucket(place)
    return IcebergAdapter(place)


def test_making_is_repeated_and_shared_without_harm(adapter: IcebergAdapter) -> None:
    """Also by several at once, in a database without a catalog; what is there stays."""
    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(lake_tables.create, adapter.address, SHAPE, 20.0) for _ in range(4)]:
            one.result(60)
    adapter.sink().publish(0, 1, adapter.rows(["a"]))
    lake_tables.create(adapter.address, SHAPE)
    assert adapter.ids() == ["a"]


def test_a_table_that_was_dropped_and_made_anew_has_no_mark_and_another_id(adapter: IcebergAdapter) -> None:
    lake_tables.create(adapter.address, SHAPE)
    sink = IcebergSink(shared_store(adapter.address.bucket), adapter.address, SHAPE)
    adapter.sink().publish(0, 1, adapter.rows(["a"]))
    before = sink.identity()
    assert sink.read_mark() == Mark(0, 1, 1, digest.of_rows_in(adapter.rows(["a"])))
    open_catalog(adapter.address).drop_table(adapter.address.identifier)
    with pytest.raises(SinkError, match="the lake table does not exist"):
        sink.read_mark()
    lake_tables.create(adapter.address, SHAPE)
    assert sink.identity() != before
    with pytest.raises(SinkError, match="progress mark -1 lies outside"):
        adapter.sink().publish(1, 1, adapter.rows(["b"]))


def test_a_reader_sees_what_is_shown(adapter: IcebergAdapter) -> None:
    """By what its settings say."""
    lake_tables.create(adapter.address, SHAPE)
    adapter.sink().publish(0, 1, adapter.rows(["a", "b"]))
    where = adapter.address
    table = read_lake_table(where.database.url, where.bucket, where.pipeline, where.sink)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == ["a", "b"]
    with pytest.raises(SinkError, match="the lake table does not exist"):
        read_lake_table(where.database.url, where.bucket, where.pipeline, "nowhere")


def test_the_reader_of_a_run_goes_without_the_products_and_sees_what_anybody_added(
    servers: Servers, adapter: IcebergAdapter
) -> None:
    """Also a row that was appended twice by somebody who knows no marks; afterwards nothing of the pipeline is left."""
    lake_tables.create(adapter.address, SHAPE)
    where = adapter.address
    tables = Tables(servers.postgres, where.pipeline)
    reader = LakeTables(tables, replace(where.bucket, endpoint=servers.object_store.endpoint))
    assert (reader.count(where.sink), list(reader.rows(where.sink))) == (0, [])
    adapter.sink().publish(0, 1, adapter.rows(["a", "b"]))
    assert (reader.count(where.sink), sorted(row["id"] for row in reader.rows(where.sink))) == (2, ["a", "b"])
    with open_catalog(where).load_table(where.identifier).transaction() as others:
        others.append(adapter.rows(["b"]))
    assert sorted(row["id"] for row in reader.rows(where.sink)) == ["a", "b", "b"]
    tables.drop()
    with pytest.raises(EvidenceError, match="the catalog has no such lake table"):
        reader.count(where.sink)


def test_a_role_without_rights_is_named(
    servers: Servers, adapter: IcebergAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink needs the rights to read the catalog and to update a table's row; making needs more."""
    lake_tables.create(adapter.address, SHAPE)
    role = f"r_{adapter.place.pipeline}"
    with as_owner(servers) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'of-a-test'")
    monkeypatch.setenv(PASSWORD, "of-a-test")
    monkeypatch.setenv(database.USER, role)
    # Of this process and this patience nobody has opened the catalog: it would be another user's.
    opened = partial(open_catalog, adapter.address, 3.5)
    sink = IcebergSink(shared_store(adapter.address.bucket), adapter.address, SHAPE, opened=opened)
    staged = [sink.stage(0, adapter.rows(["a"]))]
    with pytest.raises((AccessError, SinkError)):
        sink.publish_staged(0, 1, staged)
    with as_owner(servers) as owner:
        owner.execute(f"""
            GRANT USAGE ON SCHEMA effectively_once TO {role};
            GRANT SELECT ON effectively_once.iceberg_namespace_properties TO {role};
            GRANT SELECT, UPDATE ON effectively_once.iceberg_tables TO {role}
        """)
    assert sink.publish_staged(0, 1, staged)[1] is Published.NOW
    with pytest.raises(AccessError, match="permission denied"):
        lake_tables.make(opened(), replace(adapter.address, sink="other"), SHAPE)
