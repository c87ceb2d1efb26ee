"""Aggregates of every kind, killed at each point at which a window's state or results are written.

Their columns are drawn at random and recorded. Results are recomputed from the accepted rows by the judge's arithmetic:
by user in a table, over all users in files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
import pytest

from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.database import postgres
from tests.harness.checkers import aggregated
from tests.harness.definition.schemas import values_of
from tests.spark.aggregates_job import VALUES, pipeline
from tests.spark.attacked import cases
from tests.spark.orders import WINDOW_MS, AttackedOrders, Orders, assert_exact
from tests.spark.outputs import published_epochs

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOTALS = r".*/totals/{}/.*"
DELTA = r".*/deltas/per_user/.*"
IN_TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "windows_begun": ("windows_begun", {"shard": 1}),
    "delta": ("put_done", {"key": DELTA}),
    "windows_decided": ("windows_decided", {"shard": 1}),
    "per_user_open": ("transaction_open", {"sink": "per_user", "shard": 0}),
    "per_user_committed": ("committed", {"sink": "per_user", "shard": 1}),
}
IN_DRIVER: dict[str, tuple[str, dict[str, Any]]] = {
    "job_done": ("job_done", {}),
    "totals_staged": ("put_done", {"key": TOTALS.format("data")}),
    "totals_manifest": ("put_done", {"key": TOTALS.format("manifests")}),
    "epoch_published": ("epoch_published", {}),
}


@dataclass
class AttackedAggregates(AttackedOrders):
    """One pipeline for all points."""

    def exact(self) -> None:
        """Everything sent is published, exactly once, and each result is that of its rows."""
        self.pipeline.wait_processed(self.driver)
        expected = assert_exact(self.pipeline, running=True)
        assert_aggregates(self.pipeline, {*expected.user_counts})


@pytest.fixture(scope="module")
def attacked(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AttackedAggregates]:
    """One pipeline for all crash points; its driver is ended with this module."""
    with postgres(tmp_path_factory.mktemp("postgres")) as server:
        changes = {"job": "tests.spark.aggregates_job", "database": server.url}
        orders = Orders(toolchain, stack.endpoints, tmp_path_factory.mktemp("aggregates"), "aggregates", changes)
        orders.database = server
        orders.create_topics()
        yield AttackedAggregates.begun(orders)
        orders.end()


@pytest.mark.parametrize("case", cases(IN_TASKS, IN_DRIVER, ()))
def test_killed_at(attacked: AttackedAggregates, case: str) -> None:
    attacked.killed_at(case, {**IN_TASKS, **IN_DRIVER}, dead=attacked.assert_declared)


@pytest.mark.parametrize("name", ["windows_decided", "per_user_open"])
def test_a_driver_that_was_replaced_while_held_changes_nothing(attacked: AttackedAggregates, name: str) -> None:
    point, where = IN_TASKS[name]
    attacked.replaced_while_held(point, where)
    attacked.exact()


def assert_aggregates(orders: Orders, closed: set[tuple[str, int]]) -> None:
    """Assert that results by user and over all are those of the accepted rows of the windows that have closed."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in sorted(orders.accepted(), key=lambda row: (row["event_time_ms"], *row["source"])):
        key = row["user"], row["event_time_ms"] - row["event_time_ms"] % WINDOW_MS
        if key in closed:
            groups.setdefault(key, []).append(row)
    assert groups.keys() == closed
    shown = {(row["user"], row["window_start_ms"]): _plain(row) for row in orders.table("per_user")}
    assert shown == {key: _results(rows) for key, rows in groups.items()}
    totals: dict[int, list[dict[str, Any]]] = {}
    for (_, start), rows in groups.items():
        totals.setdefault(start, []).extend(rows)
    last = len(published_epochs(orders, running=True)) - 1
    found = {row["window_start_ms"]: _plain(row) for row in orders.files("totals", last)}
    assert found == {start: _results(rows) for start, rows in totals.items()}


def _results(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the judge's arithmetic makes of accepted rows."""
    how = values_of(pipeline, pipeline.windows[0])
    ordered = sorted(rows, key=lambda row: (row["event_time_ms"], *row["source"]))
    return {name: _number(aggregated.result(how[name], ordered)) for name in VALUES}


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: orjson.loads(row[name]) if name == "some" else _number(row[name]) for name in VALUES}


def _number(value: Any) -> Any:
    """A decimal, as a text or not, by its value."""
    return Decimal(value) if isinstance(value, str) else value
