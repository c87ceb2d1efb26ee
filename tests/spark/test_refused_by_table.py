"""Tables with constraints that somebody added, under a driver that is killed once it has recorded what they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effectively_once.epoch.refusals import STEP
from effectively_once.ledger.objects import body_of, run
from infra.embedded.postgres import PostgresServer
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.database import postgres
from tests.spark.held import Held
from tests.spark.orders import Orders
from tests.spark.records import mixture

pytestmark = pytest.mark.spark
RECORDS = rf".*/recorded/{STEP}/.*"
ROW, RESULT = "refused_by_table orders: nobody", "result_refused_by_table per_user: somebody"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def orders(stack: EmbeddedStack, toolchain: Toolchain, database: PostgresServer, tmp_path: Path) -> Iterator[Orders]:
    """Make a pipeline whose tables refuse one user each."""
    settings = {"job": "tests.spark.orders_job", "database": database.url}
    made = Orders(toolchain, stack.endpoints, tmp_path, "refusing", settings)
    made.database = database
    made.create_topics()
    for table, name, user in (("orders", "nobody", "u3"), ("per_user", "somebody", "u4")):
        alter(made, f"{table} ADD CONSTRAINT {name} CHECK (\"user\" <> '{user}')")
    yield made
    made.end()


def alter(orders: Orders, change: str) -> None:
    with orders.database.connect() as session:
        session.execute(f'ALTER TABLE "{orders.name}".{change}')


def recorded(orders: Orders) -> dict[str, dict[str, str]]:
    """Return what is recorded that tables refuse: object -> coordinates -> reason."""
    bodies = {name: run(body_of(name), orders.store) for name in orders.store.names(f"{orders.name}/recorded/{STEP}/")}
    return {name: json.loads(body or b"")["rows"] for name, body in bodies.items()}


def letters(orders: Orders) -> list[dict[str, Any]]:
    return [json.loads(value or b"null") for _, _, value in orders.raw(f"{orders.name}.dead_letter")]


def test_what_tables_refuse_is_in_no_sink_though_its_driver_is_killed_and_the_constraint_goes(orders: Orders) -> None:
    held = Held(orders.folder / "points")
    held.folder.mkdir()
    held.ask("put_done", key=RECORDS)
    driver = orders.start(env=held.env)
    orders.send(mixture(5, 600))
    held.wait(driver)
    before = {where for rows in recorded(orders).values() for where in rows}
    driver.kill()
    alter(orders, "orders DROP CONSTRAINT nobody")
    driver = orders.start()
    orders.wait_processed(driver)
    orders.send(mixture(5, 300, first=600))
    orders.wait_processed(driver)
    orders.send(mixture(5, 300, first=900))
    orders.wait_processed(driver)
    driver.stop(30)
    found = letters(orders)
    refused = {"/".join(map(str, one["source"])): one for one in found if one["reason"] == ROW}
    assert before, "the driver was killed too early"
    assert before <= refused.keys(), "a repeat decided otherwise than was recorded"
    sent = {send.coordinate: send for send in orders.sends}
    for one in refused.values():
        send = sent[tuple(one["source"])]
        assert (send.user, one["id"], one["value"]) == ("u3", send.id, send.value)
    ids = {row["id"] for row in orders.accepted()}
    archive = orders.files("archive", orders.head().last_recorded)
    assert {row["id"] for row in orders.table("orders")} == ids
    assert {row["id"] for row in archive} == ids
    assert not ids & {one["id"] for one in refused.values()}
    assert ids | {one["id"] for one in refused.values()} == {send.id for send in orders.sends if send.reason is None}
    results = [json.loads(one["value"]) for one in found if one["reason"] == RESULT]
    assert {one["user"] for one in results} == {"u4"}
    users = {row["user"] for row in orders.table("per_user")}
    assert "u4" not in users and len(users) > 30
    last = orders.head().last_recorded
    left = [name for name in recorded(orders) if int(Path(name).stem) < last]
    assert left == [], "a record that nobody reads is deleted"
