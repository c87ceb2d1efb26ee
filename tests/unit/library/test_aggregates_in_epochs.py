"""Aggregates of every kind over epochs that are killed, repeated, divided, repaired: the rows are always the same."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from effectively_once import (
    Average,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    OwnAggregate,
    Pipeline,
    Sum,
    ToFiles,
    ToKafka,
    ToTable,
    Windowed,
)
from effectively_once.epoch import shard_state
from effectively_once.errors import StaleDriverError
from effectively_once.ledger import due_epoch, segments
from effectively_once.ledger.objects import run
from effectively_once.state import windows
from tests.harness.checkers import aggregated
from tests.harness.checkers.aggregated import Value
from tests.harness.wire import spell
from tests.unit.library.broken_epochs import EPOCHS, HIT, SIZE, begun, die, mend
from tests.unit.library.broken_epochs import records as plain_records
from tests.unit.library.orders_world import MENDED, Killed, Record, World

DEEP = pytest.mark.deep
VALUES: dict[str, Any] = {
    "rows": Count(),
    "cost": Sum("cost"),
    "weight": Sum("weight"),
    "mean": Average("weight"),
    "dearest": Max("cost"),
    "lightest": Min("weight"),
    "first": First("note"),
    "last": Last("cost"),
    "notes": CountDistinct("note", 4),
    "some": Collect("note", 2),
}
# A merge that is not quite right: results depend on the parts, and a repeat has the same ones.
ROUGH = OwnAggregate(("amount",), int, lambda kept, n: kept + n, lambda a, b: (3 * a + b) % 997, int, pa.int64())
COLUMNS = "user string, amount bigint, cost decimal(38, 2), weight double, note string, flag boolean"
PIPELINE = Pipeline(
    lambda frame: frame,
    COLUMNS,
    window_ms=800,
    lateness_ms=100,
    rows=(ToKafka("accepted", key="user"),),
    windows=(
        Windowed(("user", "flag"), VALUES, ToKafka("per_user"), totals=ToFiles("totals")),
        Windowed("user", {"own": ROUGH, "rows": Count()}, ToTable("own", key=("user", "window_start_ms"))),
        Windowed("flag", {**VALUES, "whole": Average("amount")}, ToTable("per_flag")),
    ),
)


def records(seed: int = 1) -> list[Record]:
    """Return records whose doubles cancel out and whose decimals are near the end of their type."""
    found = plain_records(seed, length=20)
    for record in found:
        # By the id: a copy has the same.
        of = random.Random(f"{seed} {record['id']}")
        record |= {
            "cost": Decimal(of.choice([10**37, -(10**37), 12_345, 1])) / 100,
            "weight": of.choice([1e300, -1e300, 1e16, 0.1, -0.0, 5e-324]),
            "note": of.choices(["tea", "jam", "oil", "", "é|~"], [9, 9, 9, 9, 1])[0],
            "flag": of.random() < 0.5,
        }
    return found


def forget() -> None:
    """Let workers know nothing: the next one folds the deltas that the chain names anew."""
    shard_state._fold_cache.cache_clear()


def shown(of: World) -> dict[str, Counter[str]]:
    """What each sink shows, where the pipeline's own name does not count."""
    name = of.layout.pipeline
    return {
        sink: Counter({row.replace(f"{name}.", "p."): times for row, times in rows.items()})
        for sink, rows in of.visible().items()
    }


@functools.cache
def _untouched() -> tuple[dict[str, Counter[str]], Counter[str]]:
    steady = world()
    steady.driver().run(EPOCHS)
    return shown(steady), steady.counts()


def assert_same(attacked: World, *, but: str = "") -> None:
    """Assert that every sink shows what it does where nothing happens."""
    due, counts = _untouched()
    found = shown(attacked)
    for name in due.keys() - {but}:
        assert found[name] == due[name], name
    assert attacked.counts() == counts


def world(seed: int = 1) -> World:
    return World(records(seed), SIZE, PIPELINE)


def order() -> list[tuple[str, int]]:
    """Return each shard of each sink, as they are published."""
    return [*World([], SIZE, PIPELINE).sinks]


@pytest.mark.parametrize("at", order(), ids=str)
@pytest.mark.parametrize("epoch", [pytest.param(2, marks=DEEP), 4])
@pytest.mark.thinned(6)
def test_killed_at_any_shard_of_any_sink_another_driver_comes_to_the_same(at: tuple[str, int], epoch: int) -> None:
    """Deltas of the epoch are there or not; the other driver reads all deltas anew, those of open windows too."""
    attacked = begun(records(), PIPELINE, epoch)
    driver = attacked.driver()

    def killed(_: int) -> None:
        raise Killed

    attacked.sinks[at].before = killed
    with pytest.raises(Killed):
        driver.finish(driver.declare())
    mend(attacked)
    forget()
    attacked.driver().run(EPOCHS - epoch - 1)
    assert_same(attacked)


def test_two_drivers_that_publish_the_same_epoch_show_the_same_rows() -> None:
    """The older one is fenced at the chain: what it shows until then is what is declared."""
    attacked = world()
    for number in range(EPOCHS):
        old = attacked.driver()
        pinned = old.declare()
        summary = old.attempt(pinned, *due_epoch.input_of(old.held.head, pinned)[attacked.topic]["0"])
        forget()
        new = attacked.driver()
        new.start()
        assert new.held.head.last_recorded == number
        with pytest.raises(StaleDriverError):
            old.record(pinned, summary)
    assert_same(attacked)


@pytest.mark.deep
def test_a_window_of_more_epochs_than_a_worker_keeps_apart_is_repeated_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker that dies has merged most deltas while it read them; the next one has them as the chain names them."""
    monkeypatch.setattr(windows, "PARTS", 3)
    size, number = 8, 16
    steady, attacked = (World(records()[: size * number], size, PIPELINE) for _ in range(2))
    steady.driver().run(number)
    for _ in range(number):
        driver = attacked.driver()
        pinned = driver.declare()
        driver.attempt(pinned, *pinned.ranges[attacked.topic]["0"])
        if pinned.epoch % 4 == 3:
            forget()
        attacked.driver().start()
    assert shown(attacked) == shown(steady)
    assert shown(steady)["per_user"], "no window was closed"


@pytest.mark.parametrize("bytes_max", [300, pytest.param(450, marks=DEEP)])
def test_divided_epochs_come_to_the_same_but_for_how_they_were_cut(bytes_max: int) -> None:
    """Whatever is exact; an own aggregate that is not has other parts, and is told from them by nobody."""
    attacked = world()
    attacked.bytes_max = bytes_max
    attacked.driver().run(EPOCHS)
    assert any(record.left for record in run(segments.history(attacked.layout, attacked.head), attacked.store))
    assert_same(attacked, but="own")


@pytest.mark.parametrize("after", [("accepted", 0), pytest.param(("dead_letter", 1), marks=DEEP)])
def test_an_epoch_that_is_repaired_comes_to_the_same(after: tuple[str, int]) -> None:
    attacked = begun(records(), PIPELINE)
    driver = attacked.driver()
    driver.part = lambda shard, rows: rows.slice(0, rows.num_rows // 2) if shard == 0 else rows
    die(driver, after)
    attacked.repair(MENDED)
    attacked.driver(MENDED).run(EPOCHS - HIT - 1)
    assert_same(attacked, but="own")


def _due(rows: Sequence[dict[str, Any]], keys: tuple[str, ...]) -> Counter[str]:
    """What the judge's own arithmetic makes of accepted rows: of each result, JSON."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["event_time_ms"], *row["source"])):
        start = row["event_time_ms"] - row["event_time_ms"] % PIPELINE.window_ms
        groups.setdefault((*(row[name] for name in keys), start), []).append(row)
    kinds = {column.name: str(column.type) for column in PIPELINE.row_schema}
    found: Counter[str] = Counter()
    for (*by, start), some in groups.items():
        values = {}
        for name, value in VALUES.items():
            how = {"CountDistinct": "distinct"}.get(type(value).__name__, type(value).__name__.lower())
            of = (
                Value(how, value.column, kinds[value.column], getattr(value, "most", 0))
                if value.column
                else Value("sum")
            )
            values[name] = aggregated.result(of, some)
        if None not in values.values():
            found[_json({**dict(zip(keys, by, strict=True)), "window_start_ms": start, **values})] += 1
    return found


def _json(row: dict[str, Any]) -> str:
    return json.dumps({name: _plain(name, value) for name, value in row.items() if name != "epoch"}, sort_keys=True)


def _plain(name: str, value: Any) -> Any:
    if name == "some" and isinstance(value, str):
        # JSON within JSON may have other blanks.
        return orjson.loads(value)
    return value + 0.0 if isinstance(value, float) else value


def test_results_are_those_of_the_judge() -> None:
    attacked = world()
    attacked.driver().run(EPOCHS)
    rows_of = attacked.rows()
    accepted = [orjson.loads(orjson.dumps(row, default=spell)) for row in rows_of["accepted"]]
    closed = {row["window_start_ms"] for row in rows_of["totals"]}
    rows = [row for row in accepted if row["event_time_ms"] - row["event_time_ms"] % PIPELINE.window_ms in closed]
    due = _due(rows, ("user", "flag"))
    assert len(due) > len(closed) > 1
    assert Counter(map(_json, rows_of["per_user"])) == due
    reasons = Counter(row["reason"] for row in rows_of["dead_letter"])
    assert reasons["too_many_distinct"] + reasons["sum_too_large"] > 0, "the test is vacuous"
