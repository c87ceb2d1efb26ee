"""The tables of PostgreSQL sinks: made without harm to what is there, and refused by name in another shape."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from effectively_once.errors import SinkError
from effectively_once.sinks.postgres import TableAddress, read_mark
from effectively_once.sinks.tables import TableShape, make
from tests.stack.sinks.counts_table import COUNTS, LATEST, as_owner, counts, rows_of, sink_of
from tests.stack.sinks.servers import Servers

pytestmark = pytest.mark.stack


def test_other_columns_than_declared_are_refused(address: TableAddress) -> None:
    """By name, order or type."""
    numbers = pa.schema([("user", pa.string()), ("number", pa.int32())])
    for table in (counts(("a", 1)).select(["number", "user"]), counts(("a", 1)).cast(numbers)):
        with pytest.raises(SinkError, match="the sink was declared with"):
            sink_of(address).publish(0, 1, table)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DROP COLUMN number", 'lacks "number" bigint .*ALTER TABLE "{}"."counts" ADD COLUMN "number" bigint;'),
        ("ALTER COLUMN number TYPE integer", "number is integer and must be bigint"),
        ("ADD COLUMN more text NOT NULL", "more is required and not given"),
    ],
)
def test_a_table_in_another_shape_is_named_at_deployment_and_by_the_sink(
    servers: Servers, address: TableAddress, change: str, says: str
) -> None:
    """Before anything is published."""
    with as_owner(servers) as owner:
        owner.execute(f"ALTER TABLE {'.'.join(address.table)} {change}")
    for ask in (
        lambda: make(address.database, address.pipeline, "counts", COUNTS, 2),
        lambda: sink_of(address).publish(0, 1, counts()),
    ):
        with pytest.raises(SinkError, match=says.format(address.pipeline)):
            ask()
    assert read_mark(address) is None


def test_a_table_whose_decimals_have_other_digits_is_named(servers: Servers, address: TableAddress) -> None:
    """PostgreSQL would round what it is given, without a word."""
    shape = TableShape(pa.schema([("price", pa.decimal128(12, 2))]))
    make(address.database, address.pipeline, "prices", shape, 2)
    make(address.database, address.pipeline, "prices", shape, 2)
    with as_owner(servers) as owner:
        owner.execute(f'ALTER TABLE "{address.pipeline}"."prices" ALTER COLUMN price TYPE numeric(12, 1)')
    with pytest.raises(SinkError, match=r"price is numeric\(12,1\) and must be numeric\(12,2\)"):
        make(address.database, address.pipeline, "prices", shape, 2)


def test_a_table_without_the_key_of_an_upsert_is_named(address: TableAddress) -> None:
    """ON CONFLICT would be refused at the first row."""
    with pytest.raises(SinkError, match=r"no unique key is \(user\)"):
        make(address.database, address.pipeline, "counts", LATEST, 2)


def test_more_columns_may_be_there_if_they_can_be_left_out(servers: Servers, address: TableAddress) -> None:
    """The old version of a job runs on while a column is added for the next one."""
    sink = sink_of(address)
    sink.publish(0, 1, counts(("ann", 1)))
    with as_owner(servers) as owner:
        owner.execute(
            f"ALTER TABLE {'.'.join(address.table)} ADD COLUMN country text, ADD COLUMN n int NOT NULL DEFAULT 7"
        )
    sink.publish(1, 1, counts(("ann", 2)))
    sink_of(address).publish(2, 1, counts(("ann", 3)))
    assert rows_of(servers, address) == [("ann", n, None, 7) for n in (1, 2, 3)]


def test_making_is_repeated_and_shared_without_harm(servers: Servers, address: TableAddress) -> None:
    """Marks that are there stay."""
    sink_of(address).publish(0, 1, counts(("ann", 1)))
    with ThreadPoolExecutor(6) as pool:
        made = [
            pool.submit(make, address.database, address.pipeline, sink, COUNTS, 2)
            for sink in ("counts", "one", "one", "two", "two", "two")
        ]
        for one in made:
            one.result(30)
    mark = read_mark(address)
    assert mark is not None
    assert (mark.epoch, read_mark(replace(address, sink="two"))) == (0, None)


def test_more_shards_begin_where_the_others_are(servers: Servers, address: TableAddress) -> None:
    """`make` gives them rows of marks, and `begin` the mark; of one that went on, both leave the mark alone."""
    sink_of(address).publish(0, 1, counts(("ann", 1)))
    make(address.database, address.pipeline, "counts", COUNTS, 3)
    more = replace(address, shard=2)
    begun = sink_of(more).begin(0, 2)
    assert begun is not None
    assert (begun.epoch, begun.rows) == (0, 0)
    sink_of(more).publish(1, 2, counts(("bob", 1)))
    after = sink_of(more).begin(0, 3)
    assert after is not None
    assert (after.epoch, after.rows) == (1, 1)
    assert rows_of(servers, address) == [("ann", 1), ("bob", 1)]


def test_a_table_that_is_gone_is_refused(servers: Servers, address: TableAddress) -> None:
    """It is not silently begun anew."""
    sink_of(address).publish(0, 1, counts(("ann", 1)))
    with as_owner(servers) as owner:
        owner.execute(f"DROP TABLE {'.'.join(address.table)}")
    with pytest.raises(SinkError, match="the table is gone, and epochs up to 0 were published into it"):
        make(address.database, address.pipeline, "counts", COUNTS, 2)
    with pytest.raises(SinkError, match="the table does not exist"):
        sink_of(address).publish(1, 1, counts())
