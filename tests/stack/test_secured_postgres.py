"""A real PostgreSQL with the chart's TLS and roles: a pipeline has its tables and its marks, and nothing of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import errors as pg
from psycopg import sql

from effectively_once.errors import AccessError, SettingsError, SinkError
from effectively_once.operate.grant_tables import OURS
from effectively_once.sinks import lake_tables
from effectively_once.sinks.database import AUTHORITIES, SSL_MODE, DatabaseAddress, Session, connect
from effectively_once.sinks.iceberg import IcebergSink
from effectively_once.sinks.lake_catalog import LakeAddress, LakeCatalog, engine_of
from effectively_once.sinks.lake_files import LakeShape
from effectively_once.sinks.postgres import TableAddress, TableSink, read_mark
from effectively_once.sinks.tables import Name, TableShape, check, make
from effectively_once.store.object_store import BucketAddress
from infra.certificates import make_authority
from tests.stack.secured_postgres import SecuredPostgres, secured_postgres
from tests.unit.ledger.memory_store import MemoryStore

pytestmark = pytest.mark.stack
TABLES = {"result_store": True}
PIPELINES = {"orders": {"job": "own.orders", **TABLES}, "clicks": {"job": "own.clicks", "topic": "clicks", **TABLES}}
PASSWORDS = {name: f"the password of {name}" for name in PIPELINES}
COUNTS = TableShape(pa.schema([("user", pa.string()), ("number", pa.int64())]))
ROWS = [("ann", 1), ("bob", 2), ("cid", 3)]
PATIENCE_S = 5.0
LogIn = Callable[..., DatabaseAddress]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPostgres]:
    with secured_postgres(tmp_path_factory.mktemp("secured-postgres")) as started:
        yield started


@pytest.fixture
def log_in(server: SecuredPostgres, monkeypatch: pytest.MonkeyPatch) -> LogIn:
    """Return a function by which this process becomes a user of the server."""
    assert server.give(PASSWORDS, pipelines=PIPELINES) == 0

    def become(user: str, password: str | None = None, **given: Any) -> DatabaseAddress:
        for name, value in server.client(user, password or PASSWORDS[user], **given).items():
            monkeypatch.setenv(name, value)
        return DatabaseAddress(server.url)

    return become


@pytest.fixture
def counts(log_in: LogIn) -> TableAddress:
    """Make a table of the orders, as its own role; this process is that then."""
    address = TableAddress(log_in("orders"), "orders", "counts", 1)
    make(address.database, "orders", "counts", COUNTS, 2, patience_s=PATIENCE_S)
    return address


def publish(address: TableAddress, epoch: int) -> None:
    with closing(TableSink(address, COUNTS, patience_s=PATIENCE_S)) as sink:
        columns = list(zip(*ROWS, strict=True))
        sink.publish(epoch, 1, pa.table([pa.array(each) for each in columns], schema=COUNTS.schema))


def session(address: DatabaseAddress) -> Session:
    return connect(address, "test", PATIENCE_S)


def next_epoch(address: TableAddress) -> int:
    mark = read_mark(address, PATIENCE_S)
    return 0 if mark is None else mark.epoch + 1


def rows(server: SecuredPostgres, name: Name) -> list[Any]:
    with server.connect() as owner:
        return owner.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(*name))).fetchall()


def test_a_pipeline_makes_its_tables_and_publishes_an_epoch_whole(
    server: SecuredPostgres, counts: TableAddress
) -> None:
    before, epoch = len(rows(server, counts.table)), next_epoch(counts)
    publish(counts, epoch)
    check(counts.database, counts.table, COUNTS, PATIENCE_S)
    assert rows(server, counts.table)[before:] == ROWS
    mark = read_mark(counts, PATIENCE_S)
    assert mark is not None
    assert (mark.epoch, mark.rows) == (epoch, len(ROWS))
    with session(counts.database) as own:
        assert own.pgconn.ssl_in_use


def refuse(others: Session, *statements: str) -> None:
    """Demand that a role may do none of these."""
    for statement in statements:
        with pytest.raises(pg.InsufficientPrivilege):
            others.execute(statement.encode())


def test_another_pipeline_neither_reads_nor_writes_its_tables(
    server: SecuredPostgres, counts: TableAddress, log_in: LogIn
) -> None:
    publish(counts, next_epoch(counts))
    before, others = rows(server, counts.table), log_in("clicks")
    with session(others) as other:
        refuse(
            other,
            "SELECT * FROM orders.counts",
            "INSERT INTO orders.counts VALUES ('eve', 9)",
            "DELETE FROM orders.counts",
            "DROP TABLE orders.counts",
            "ALTER TABLE orders.counts OWNER TO clicks",
            "CREATE TABLE orders.more (n int)",
        )
    for ask in (
        lambda: check(others, counts.table, COUNTS, PATIENCE_S),
        lambda: make(others, "orders", "more", COUNTS, 2, patience_s=PATIENCE_S),
        lambda: publish(counts, 0),
    ):
        with pytest.raises(AccessError, match="permission denied for schema orders"):
            ask()
    assert rows(server, counts.table) == before


def test_another_pipeline_neither_sees_nor_moves_its_marks(
    server: SecuredPostgres, counts: TableAddress, log_in: LogIn
) -> None:
    publish(counts, next_epoch(counts))
    others = log_in("clicks")
    make(others, "clicks", "counts", COUNTS, 2, patience_s=PATIENCE_S)
    marks = rows(server, ("effectively_once", "progress"))
    with session(others) as other:
        seen = other.execute("SELECT DISTINCT pipeline FROM effectively_once.progress").fetchall()
        assert seen == [("clicks",)]
        assert other.execute("UPDATE effectively_once.progress SET epoch = 7 WHERE pipeline <> 'clicks'").rowcount == 0
        refuse(
            other,
            "INSERT INTO effectively_once.progress VALUES ('orders', 'more', 0, 7, 0, 0, '')",
            "UPDATE effectively_once.progress SET pipeline = 'orders', sink = 'more'",
            "DELETE FROM effectively_once.progress",
            "ALTER TABLE effectively_once.progress DISABLE ROW LEVEL SECURITY",
            "TRUNCATE effectively_once.progress",
            "CREATE TABLE effectively_once.more (n int)",
        )
    with pytest.raises(SinkError, match="the shard has no progress mark"):
        read_mark(counts, PATIENCE_S)
    assert rows(server, ("effectively_once", "progress")) == marks


LAKE = LakeShape(pa.schema([("id", pa.string())]))


def show_visit(address: LakeAddress, objects: MemoryStore) -> list[tuple[str, ...]]:
    """Make a lake table, show an epoch of it, and return what tables there are of its pipeline."""
    catalog = LakeCatalog(engine_of(address.database, PATIENCE_S), objects, address.root)
    lake_tables.make(catalog, address, LAKE)
    sink = IcebergSink(objects, address, LAKE, opened=lambda: catalog)
    sink.publish_staged(0, 1, [sink.stage(0, pa.table({"id": ["a"]}, schema=LAKE.schema))])
    return catalog.list_tables(address.pipeline)


def test_another_pipeline_neither_sees_nor_moves_its_lake_tables(server: SecuredPostgres, log_in: LogIn) -> None:
    """Each makes its own with the rights of its role, and commits an epoch to it."""
    objects, bucket = MemoryStore(), BucketAddress("http://nowhere:1", "data")
    for name in ("orders", "clicks"):
        assert show_visit(LakeAddress(log_in(name), bucket, name, "visits"), objects) == [(name, "visits")]
    kept = rows(server, ("effectively_once", "iceberg_tables"))
    with session(DatabaseAddress(server.url)) as clicks:
        assert clicks.execute("SELECT DISTINCT table_namespace FROM effectively_once.iceberg_tables").fetchall() == [
            ("clicks",)
        ]
        touch = "UPDATE effectively_once.iceberg_tables SET metadata_location = metadata_location"
        assert clicks.execute(touch).rowcount == 1
        refuse(
            clicks,
            "INSERT INTO effectively_once.iceberg_tables VALUES ('effectively_once', 'orders', 'more')",
            "UPDATE effectively_once.iceberg_tables SET table_namespace = 'orders', table_name = 'more'",
            "INSERT INTO effectively_once.iceberg_namespace_properties VALUES ('effectively_once', 'orders', 'a', 'b')",
            "DELETE FROM effectively_once.iceberg_tables",
        )
    assert [row for row in rows(server, ("effectively_once", "iceberg_tables")) if row[1] == "orders"] == [
        row for row in kept if row[1] == "orders"
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE ROLE more",
        "CREATE DATABASE more",
        "CREATE SCHEMA more",
        "CREATE TABLE public.more (n int)",
        "ALTER ROLE clicks SUPERUSER",
        "ALTER ROLE orders PASSWORD 'another'",
        "SET ROLE orders",
        "SET ROLE effectively_once",
        "SELECT rolpassword FROM pg_authid",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ],
)
def test_a_pipeline_makes_no_roles_databases_or_schemas_and_becomes_nobody_else(log_in: LogIn, statement: str) -> None:
    with session(log_in("clicks")) as own, pytest.raises(pg.InsufficientPrivilege):
        own.execute(statement.encode())


def test_who_has_a_wrong_password_or_none_is_refused_by_name(log_in: LogIn) -> None:
    for user, password in (("clicks", "another's"), ("clicks", PASSWORDS["orders"]), ("nobody", "any"), (OURS, "any")):
        with pytest.raises(AccessError, match=f'password authentication failed for user "{user}".*Check PGUSER'):
            check(log_in(user, password), ("clicks", "counts"), COUNTS, PATIENCE_S)


def test_a_server_whose_authority_is_not_believed_is_refused_by_name(log_in: LogIn) -> None:
    address = log_in("clicks", authority=make_authority("another platform"))
    with pytest.raises(AccessError, match=r"certificate verify failed.*Check PGSSLMODE.* in the file of PGSSLROOTCERT"):
        check(address, ("clicks", "counts"), COUNTS, PATIENCE_S)


def test_a_server_whose_certificate_is_for_another_host_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured_postgres(tmp_path, hosts=["postgres.elsewhere.svc"]) as server:
        for name, value in server.client(server.user, server.password).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(AccessError, match="does not match host name"):
            session(DatabaseAddress(server.url))


def test_who_names_no_file_of_authorities_is_told_so(
    server: SecuredPostgres, log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = log_in("clicks")
    monkeypatch.setenv(AUTHORITIES, str(server.root / "missing.crt"))
    with pytest.raises(AccessError, match=r'certificate file "\S+missing.crt" does not exist'):
        session(address)


def test_plain_connections_are_refused_by_name_for_the_owner_too(
    server: SecuredPostgres, log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user, password in ((server.user, server.password), ("clicks", PASSWORDS["clicks"])):
        address = log_in(user, password)
        monkeypatch.setenv(SSL_MODE, "disable")
        with pytest.raises(AccessError, match=r"no pg_hba.conf entry .*no encryption.*Check PGSSLMODE") as refused:
            session(address)
        assert refused.value.exit_code == 77


def test_another_password_counts_for_the_next_session_and_those_that_have_begun_go_on(
    server: SecuredPostgres, counts: TableAddress, log_in: LogIn
) -> None:
    with server.connect() as owner:
        owner.execute("ALTER ROLE CURRENT_USER SET log_statement = 'all'")
    with session(counts.database) as begun:
        assert server.give({**PASSWORDS, "orders": "a new one"}, pipelines=PIPELINES) == 0
        assert begun.execute("SELECT count(*) FROM orders.counts").fetchone() is not None
        with pytest.raises(AccessError, match="password authentication failed"):
            session(counts.database)
        log_in_again = server.client("orders", "a new one")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in log_in_again.items():
            patch.setenv(name, value)
        publish(counts, next_epoch(counts))
    with server.connect() as owner:
        owner.execute("ALTER ROLE CURRENT_USER RESET log_statement")
    log = server._log.read_text()
    assert 'ALTER ROLE "orders" LOGIN' in log
    assert not [password for password in ("a new one", *PASSWORDS.values(), server.password) if password in log]


def test_a_pipeline_that_is_no_more_logs_in_no_more_and_finds_its_tables_when_it_comes_back(
    server: SecuredPostgres, counts: TableAddress, log_in: LogIn
) -> None:
    publish(counts, next_epoch(counts))
    before, begun = rows(server, counts.table), session(counts.database)
    assert server.give(PASSWORDS, pipelines={"clicks": PIPELINES["clicks"]}) == 0
    with pytest.raises(psycopg.OperationalError):
        begun.execute("SELECT 1")
    with pytest.raises(AccessError, match='role "orders" is not permitted to log in'):
        session(counts.database)
    assert rows(server, counts.table) == before
    assert server.give(PASSWORDS, pipelines=PIPELINES) == 0
    publish(counts, next_epoch(counts))


def test_tables_and_marks_of_a_pipeline_without_a_role_become_its_own(server: SecuredPostgres, log_in: LogIn) -> None:
    """As it was before `security.result_store` was set: everything is the owner's."""
    former = TableAddress(log_in(server.user, server.password), "former", "counts", 1)
    make(former.database, "former", "counts", COUNTS, 2, patience_s=PATIENCE_S)
    publish(former, 0)
    with server.connect() as owner:
        owner.execute("CREATE SEQUENCE former.numbers")
        owner.execute("CREATE VIEW former.seen AS SELECT * FROM former.counts")
        owner.execute(
            "CREATE FUNCTION former.one() RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''former.numbers'')'"
        )
        owner.execute(
            "ALTER TABLE former.counts ADD COLUMN serial bigserial, ADD COLUMN one bigint DEFAULT former.one()"
        )
    pipelines = {**PIPELINES, "former": {"job": "own.former", "topic": "former", **TABLES}}
    assert server.give({**PASSWORDS, "former": "its password"}, pipelines=pipelines) == 0
    log_in("former", "its password")
    publish(former, 1)
    with session(former.database) as own:
        assert own.execute("SELECT count(*) FROM former.seen").fetchone() == (2 * len(ROWS),)
        own.execute("ALTER TABLE former.counts ADD COLUMN country text")
        own.execute("CREATE OR REPLACE FUNCTION former.one() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'")
    for user, password in (("clicks", PASSWORDS["clicks"]), ("orders", PASSWORDS["orders"])):
        with session(log_in(user, password)) as other, pytest.raises(pg.InsufficientPrivilege):
            other.execute("SELECT * FROM former.counts")


@pytest.mark.parametrize(
    ("theirs", "name"),
    [
        ("CREATE ROLE {} LOGIN", "reports"),
        ("CREATE ROLE of_{0}; CREATE SCHEMA {0} AUTHORIZATION of_{0}", "reports_2"),
    ],
)
def test_a_role_or_schema_that_is_somebody_elses_is_not_taken(
    server: SecuredPostgres, log_in: LogIn, capsys: pytest.CaptureFixture[str], theirs: str, name: str
) -> None:
    """And nothing is given to anybody then."""
    log_in("clicks")
    with server.connect() as owner:
        owner.execute(theirs.format(name).encode())
    wanted = {name: {"job": "own.reports", "topic": "reports", **TABLES}}
    assert server.give({name: "its password"}, pipelines=wanted) == SettingsError.exit_code
    told = capsys.readouterr().err
    assert f"{name} already" in told
    with server.connect() as owner:
        found = "SELECT pg_has_role(%s, %s, 'MEMBER') FROM pg_roles WHERE rolname = %s"
        assert owner.execute(found, [name, OURS, name]).fetchone() in ((False,), None)
    session(log_in("clicks")).close()
