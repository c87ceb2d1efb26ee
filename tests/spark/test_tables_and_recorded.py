"""A job with tables and a step that is not deterministic, killed between its steps, replaced, restored, outgrown.

The values of a row are drawn at random: whoever repeats an epoch has to publish the draw that was recorded, in the
topic, in the table and in the files alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from effectively_once.ledger.objects import Delete
from effectively_once.operate.create.create import create
from effectively_once.pipeline.job import job_of
from infra.embedded.postgres import PostgresServer
from infra.embedded.process import Child, wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.database import postgres
from tests.spark.attacked import cases
from tests.spark.held import Held
from tests.spark.orders import AttackedOrders, Orders, assert_exact
from tests.spark.pipeline import ADMIN_S, PARTITIONS, Outgoing
from tests.spark.records import good, mixture

pytestmark = [pytest.mark.spark, pytest.mark.core]

RECORDED, ARCHIVE = r".*/recorded/priced/.*", r".*/archive/{}/.*"
IN_TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "drawn": ("put", {"key": RECORDED}),
    "recorded": ("put_done", {"key": RECORDED}),
    "orders_open": ("transaction_open", {"sink": "orders", "shard": 0}),
    "orders_committed": ("committed", {"sink": "orders", "shard": 1}),
    "archive_staged": ("put_done", {"key": ARCHIVE.format("data")}),
    "windows_decided": ("windows_decided", {"shard": 1}),
    "per_user_open": ("transaction_open", {"sink": "per_user", "shard": 0}),
    "per_user_committed": ("committed", {"sink": "per_user", "shard": 1}),
}
IN_DRIVER: dict[str, tuple[str, dict[str, Any]]] = {
    "job_done": ("job_done", {}),
    "archive_manifest": ("put_done", {"key": ARCHIVE.format("manifests")}),
    "epoch_published": ("epoch_published", {}),
}
CORE = ("recorded-worker",)
"""The others need minutes and are left to `make test-all`."""
SINK, VERSION = 76, 78
ENDED_S, STEP_S = 40.0, 60.0
NAMED = re.compile(r"\w+Error: .+ \(.+\)\. \S")
MINE = "pipeline = %(pipeline)s"
Make = Callable[..., Orders]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Start one for all pipelines of this module."""
    with postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="module")
def new_orders(
    stack: EmbeddedStack, toolchain: Toolchain, database: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Make]:
    """Make a pipeline with topics and tables of its own; its drivers are ended with this module."""
    made: list[Orders] = []

    def make(name: str, **settings: object) -> Orders:
        changes = {"job": "tests.spark.orders_job", "database": database.url, **settings}
        orders = Orders(toolchain, stack.endpoints, tmp_path_factory.mktemp(name), name, changes)
        orders.database = database
        made.append(orders)
        orders.create_topics()
        return orders

    yield make
    for orders in made:
        orders.end()


@pytest.fixture(scope="module")
def attacked_orders(new_orders: Make) -> AttackedOrders:
    """One pipeline for all crash points."""
    return AttackedOrders.begun(new_orders("orders"), epochs=1)


@pytest.mark.quick
@pytest.mark.parametrize("case", cases(IN_TASKS, IN_DRIVER, CORE))
def test_killed_at(attacked_orders: AttackedOrders, case: str) -> None:
    attacked, orders, drawn = attacked_orders, attacked_orders.pipeline, dict[str, list[int]]()
    attacked.killed_at(
        case,
        {**IN_TASKS, **IN_DRIVER},
        held=lambda: drawn.update(orders.records_of_the_step()),
        dead=attacked.assert_declared,
    )
    if case.startswith("recorded-"):
        assert drawn, "the killed process had recorded its draw"
    published = {row["price"] for row in orders.accepted()}
    for key, prices in drawn.items():
        assert set(prices) <= published, f"{key} was recorded, and something else published"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["drawn", "orders_open", "per_user_open"])
def test_a_driver_that_was_replaced_while_held_changes_nothing(attacked_orders: AttackedOrders, name: str) -> None:
    """It drew too, or holds the lock of a table's mark; what it does when it wakes comes too late, or is the same."""
    attacked = attacked_orders
    point, where = IN_TASKS[name]
    attacked.replaced_while_held(point, where)
    attacked.exact()


@pytest.mark.slow
def test_what_is_recorded_goes_when_its_epoch_is_recorded(attacked_orders: AttackedOrders) -> None:
    attacked, orders = attacked_orders, attacked_orders.pipeline
    attacked.send()
    orders.wait_processed(attacked.driver)
    last = orders.head().last_recorded
    left = sorted(orders.records_of_the_step())
    assert left, "the epoch that is declared still needs its own"
    # One of a driver that was killed between declaring and deleting may stay; it is a leftover.
    assert [name for name in left if int(name.rsplit("/", 1)[1].split(".")[0]) == last] == []


def assert_refused(orders: Orders, code: int, *says: str, env: dict[str, str] | None = None, **changes: object) -> None:
    """Start a driver, and assert that it ends by itself with one line that says why."""
    driver = orders.start(orders.write_settings({"start_patience_s": 2, **changes}), env)
    assert driver.wait(ENDED_S), driver.post_mortem()
    lines = driver.log.read_text().rstrip("\n").split("\n")
    assert driver.status() == code, driver.post_mortem()
    assert [line for line in lines if NAMED.match(line)] == lines[-1:]
    assert all(text in lines[-1] for text in says), lines[-1]


def stop_in_order(orders: Orders, driver: Child) -> None:
    orders.wait_processed(driver)
    driver.stop(30)
    assert driver.status() == 0, driver.post_mortem()


@pytest.fixture(scope="module")
def stopped(new_orders: Make) -> Orders:
    """Run a pipeline for some epochs and stop it in order; each test leaves it as it was."""
    orders = new_orders("orders_stopped", epoch_rows_max=100)
    orders.send(mixture(5, 400))
    stop_in_order(orders, orders.start())
    assert_exact(orders)
    return orders


@pytest.mark.slow
def test_a_database_from_before_is_refused_and_the_right_one_taken(stopped: Orders) -> None:
    """Rows and marks were restored together; the chain has gone on (R10)."""
    backup = _dump(stopped)
    stopped.send(mixture(5, 100, first=400))
    stop_in_order(stopped, stopped.start())
    now, last = _dump(stopped), stopped.head().last_recorded
    _restore(stopped, backup)
    generation = stopped.head().generation
    assert_refused(
        stopped, SINK, "SinkError: progress mark", f"lies outside the chain's {last} to {last}", "sink orders shard 0"
    )
    _restore(stopped, now)
    stopped.send(mixture(5, 100, first=500))
    stop_in_order(stopped, stopped.start())
    assert stopped.head().generation == generation + 2
    assert_exact(stopped)


@pytest.mark.slow
def test_marks_that_run_ahead_of_the_chain_are_refused(stopped: Orders) -> None:
    """The bucket is the one from before."""
    last = stopped.head().last_recorded
    now = _dump(stopped)
    _execute(
        stopped, "UPDATE effectively_once.progress SET epoch = epoch + 1 WHERE pipeline = %(pipeline)s AND shard = 1"
    )
    assert_refused(
        stopped, SINK, f"progress mark {last + 1} lies outside the chain's {last} to {last}", "sink orders shard 1"
    )
    _restore(stopped, now)


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["orders", "per_user"])
def test_marks_that_are_gone_are_refused(stopped: Orders, sink: str) -> None:
    now = _dump(stopped)
    _execute(stopped, f"DELETE FROM effectively_once.progress WHERE {MINE} AND sink = '{sink}'")  # noqa: S608
    assert_refused(
        stopped, SINK, "the shard has no progress mark", f"sink {sink} shard 0", "restore its table and its marks"
    )
    _restore(stopped, now)


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["orders", "per_user"])
def test_a_table_that_is_gone_is_refused_at_the_start(stopped: Orders, sink: str) -> None:
    """Its marks are there, so what was published is lost."""
    _execute(stopped, f'ALTER TABLE "{stopped.name}"."{sink}" RENAME TO elsewhere')
    try:
        assert_refused(stopped, SINK, "the table does not exist", f"table {stopped.name}.{sink}")
    finally:
        stopped.end()
        _execute(stopped, f'ALTER TABLE "{stopped.name}".elsewhere RENAME TO "{sink}"')


@pytest.mark.slow
def test_create_makes_no_new_table_in_the_place_of_one_that_held_rows(stopped: Orders) -> None:
    """And no marks in the place of others: the way out that a message names must not lose what was published."""
    _execute(stopped, f'ALTER TABLE "{stopped.name}".orders RENAME TO elsewhere')
    try:
        with pytest.raises(Exception, match=r"the table is gone, and epochs up to \d+ were published into it"):
            stopped.create_topics()
    finally:
        _execute(stopped, f'ALTER TABLE "{stopped.name}".elsewhere RENAME TO orders')
    stopped.create_topics()
    assert_exact(stopped)


@pytest.mark.slow
def test_a_sink_that_is_added_begins_with_the_next_epoch_once_create_has_run(new_orders: Make) -> None:
    """It has none of the epochs before. To have them, the pipeline begins anew under another name."""
    orders, job = new_orders("orders_added", epoch_rows_max=100), "tests.spark.orders_job:wider"
    orders.send(mixture(7, 200))
    stop_in_order(orders, orders.start())
    before = orders.head().last_recorded
    assert_refused(orders, SINK, "added", "Run `effectively-once create`", job=job)
    settings = orders.write_settings({"job": job})
    create(job_of(settings), replication=1, deadline_s=30)
    orders.send(mixture(8, 200, first=200))
    stop_in_order(orders, orders.start(settings))
    assert_exact(orders, added_at=before + 1)
    later = Counter(row["id"] for row in orders.accepted() if row["epoch"] > before)
    assert Counter(row["id"] for row in orders.table("added")) == later != Counter()


Dump = dict[str, tuple[list[str], list[tuple[Any, ...]]]]


def _tables(orders: Orders) -> dict[str, str]:
    """Return every table of a pipeline, and which of its rows are the pipeline's."""
    mine = f"WHERE pipeline = '{orders.name}'"
    return {f'"{orders.name}".orders': "", f'"{orders.name}".per_user': "", "effectively_once.progress": mine}


def _dump(orders: Orders) -> Dump:
    found: Dump = {}
    with orders.database.connect() as session:
        for table, which in _tables(orders).items():
            rows = session.execute(f"SELECT * FROM {table} {which}")  # noqa: S608 - our own names
            found[table] = ([f'"{column.name}"' for column in rows.description or ()], rows.fetchall())
    return found


def _restore(orders: Orders, dump: Dump) -> None:
    with orders.database.connect() as session, session.transaction():
        for table, which in _tables(orders).items():
            columns, rows = dump[table]
            session.execute(f"DELETE FROM {table} {which}")  # noqa: S608
            places = ", ".join(["%s"] * len(columns))
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608
            with session.cursor() as cursor:
                cursor.executemany(insert, rows)


def _execute(orders: Orders, statement: str) -> None:
    with orders.database.connect() as session:
        assert session.execute(statement, {"pipeline": orders.name}).rowcount != 0


@pytest.mark.slow
def test_another_version_lets_the_one_that_declared_an_epoch_finish_it(new_orders: Make) -> None:
    """Then it starts, and what the older one drew for the epoch is what was published."""
    orders = new_orders("orders_version")
    held = Held(orders.folder / "points")
    held.folder.mkdir()
    newer = {"EFFECTIVELY_ONCE_WHEEL_DIGEST": "f" * 64}
    older = orders.start(env=held.env)
    held.ask("transaction_open", sink="orders", shard=0)
    orders.send(mixture(6, 100))
    held.wait(older)
    # The other shard is not held: it may draw a moment later.
    wait_for("both draws", ADMIN_S, lambda: len(orders.records_of_the_step()) == 2)
    older.kill()
    drawn = orders.records_of_the_step()
    declared = orders.head()
    assert_refused(
        orders, VERSION, "VersionError: epoch 0 was declared by wheel", "this is wheel ffffffffffff", env=newer
    )
    assert orders.head() == declared, "nothing was taken over"
    stop_in_order(orders, orders.start())
    orders.send(mixture(6, 100, first=100))
    stop_in_order(orders, orders.start(env=newer))
    expected = assert_exact(orders)
    assert expected.numbers[0].accepted == sum(map(len, drawn.values()))
    assert {price for prices in drawn.values() for price in prices} <= {row["price"] for row in orders.accepted()}
    assert {record.wheel_digest for record in orders.epochs()} > {"f" * 64}


def _grown(orders: Orders, partitions: int) -> None:
    """Add partitions to the input topic, and wait until a client of the broker sees them."""
    orders.admin.create_partitions([NewPartitions(orders.topic, partitions)])[orders.topic].result(ADMIN_S)

    def is_visible() -> bool:
        return (
            len(orders.admin.list_topics(orders.topic, timeout=ADMIN_S).topics[orders.topic].partitions) == partitions
        )

    wait_for(f"{partitions} partitions", ADMIN_S, is_visible)


def _spread(orders: Orders, first: int, partitions: int) -> None:
    """Send records to every partition; the times go on."""
    orders.send(
        [
            good(f"p{first + n:05d}", f"u{n % 7}", 1_750_000_020_000 + (first + n) * 500, n % partitions)
            for n in range(60)
        ]
    )


@pytest.mark.slow
def test_partitions_that_are_added_while_it_runs_are_read_from_their_start(new_orders: Make) -> None:
    """With records in them before anybody knows of them; then a driver dies in an epoch that has their first ranges."""
    orders = new_orders("orders_grown")
    held = Held(orders.folder / "points")
    held.folder.mkdir()
    driver = orders.start(env=held.env)
    _spread(orders, 0, PARTITIONS)
    orders.wait_processed(driver)
    _grown(orders, PARTITIONS + 2)
    held.ask("committed", sink="orders", shard=0)
    _spread(orders, 60, PARTITIONS + 2)
    held.wait(driver)
    driver.kill()
    driver = orders.start(env=held.env)
    orders.wait_processed(driver)
    assert_exact(orders, running=True)
    _spread(orders, 120, PARTITIONS + 2)
    stop_in_order(orders, driver)
    assert_exact(orders)
    ranges = [record.ranges[orders.topic] for record in orders.epochs()]
    assert ranges[0].keys() == {str(p) for p in range(PARTITIONS)}
    firsts = {p: next(at[p] for at in ranges if p in at) for p in ("4", "5")}
    assert all(start == 0 for start, _ in firsts.values())


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [True, False], ids=["kept", "gone"])
def test_partitions_that_are_added_while_it_is_down_are_read_from_their_start(
    new_orders: Make, checkpoint: bool
) -> None:
    """Spark finds them, or the driver does when there is no checkpoint any more."""
    orders = new_orders(f"orders_down_{'kept' if checkpoint else 'gone'}")
    _spread(orders, 0, PARTITIONS)
    stop_in_order(orders, orders.start())
    _grown(orders, PARTITIONS + 1)
    _spread(orders, 60, PARTITIONS + 1)
    if not checkpoint:
        lineage = orders.epochs()[-1].lineage
        for name in list(orders.store.names(f"{orders.layout.checkpoint(lineage)}/")):
            orders.store.answer(Delete(name))
    stop_in_order(orders, orders.start())
    expected = assert_exact(orders)
    assert len(expected.accepted) == 120
    assert next(r.ranges[orders.topic]["4"][0] for r in orders.epochs() if "4" in r.ranges[orders.topic]) == 0


@pytest.mark.slow
def test_the_number_of_shards_changes_whatever_dies_meanwhile(new_orders: Make) -> None:
    """Ids of before come again after it, and windows that were open close with what all shards counted."""
    orders, records = new_orders("orders_resharded", epoch_rows_max=100), mixture(9, 900)
    held = Held(orders.folder / "points")
    held.folder.mkdir()

    def die(point: str, *sent: Outgoing, **where: object) -> None:
        held.ask(point, **where)
        driver = orders.start(env=held.env)
        orders.send(sent)
        held.wait(driver)
        driver.kill()
        held.release()

    orders.send(records[:200])
    stop_in_order(orders, orders.start())
    die("committed", *records[200:300], sink="orders", shard=0)
    assert_refused(orders, SINK, "has 2 partitions, 3 shards need one each", "`effectively-once create`", shards=3)
    orders.settings["shards"] = 3
    orders.create_topics()
    die("shards_begun")
    die("transaction_open", *records[300:400], *records[:40], sink="accepted", shard=2)
    orders.send(records[400:600])
    stop_in_order(orders, orders.start())
    orders.settings["shards"] = 1
    die("declared", *records[600:700], *records[280:420])
    orders.settings["shards"] = 2
    orders.create_topics()
    orders.send([*records[700:], *records[600:640]])
    stop_in_order(orders, orders.start())
    expected = assert_exact(orders)
    assert expected.user_counts, "no window has closed"
    numbers = [record.shards for record in orders.epochs()]
    assert [number for at, number in enumerate(numbers) if at == 0 or numbers[at - 1] != number] == [2, 3, 1, 2]


@pytest.mark.slow
def test_no_record_can_stop_a_pipeline_for_good(new_orders: Make) -> None:
    """A zero byte in a text is JSON like any other, and no text to PostgreSQL."""
    orders = new_orders("orders_zero")
    driver = orders.start()
    bad = good("zero", "a\x00b", 1_750_000_020_000, 0)
    orders.send([good("before", "ann", 1_750_000_020_000, 0), bad, good("after", "ann", 1_750_000_020_000, 1)])
    orders.wait_processed(driver)
    assert {row["id"] for row in orders.table("orders")} == {"before", "after"}
