"""Fusion and combiner lifting (S14): what each does to plan, stages and bytes shuffled. No answer depends on either."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from effectively_once.progress import VARIABLE
from infra.cluster.access import CHECKOUT
from infra.embedded.spark import SparkHome
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import Toolchain
from tests.bench import event_log, rates
from tests.bench.event_log import Query
from tests.bench.optimised import VARIANTS
from tests.bench.optimised_job import group
from tests.bench.s1_events import WINDOW_MS, Events

pytestmark = pytest.mark.spark

EVENTS = Events(6_000, users=40)
REFUSED = [b"no JSON", b'{"id":"i","user":"","event_time_ms":1,"payload":"","crc":0}', b'{"id":"i","user":"u"}']
PARTS, FILES = 2, 3
AS_IS, NOT_FUSED, NOT_COMBINED, NEITHER = VARIANTS
NOWHERE = Endpoints("", "", "none", "none", "")


@dataclass(frozen=True)
class Ran:
    """What each variant answered, and Spark's account of it."""

    found: dict[str, list[list[Any]]]
    queries: dict[str, Query]


@pytest.fixture(scope="module")
def ran(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All variants once, over rows as Kafka's source gives them; the job is that of the measurement."""
    folder = tmp_path_factory.mktemp("optimisations")
    (folder / "rows").mkdir()
    (folder / "log").mkdir()
    values = [*EVENTS.values(), *REFUSED]
    for part in range(FILES):
        mine = values[part::FILES]
        pq.write_table(_as_kafka(part, mine), folder / "rows" / f"{part}.parquet")
    settings = folder / "settings.json"
    asked = {"format": "parquet", "options": {"path": str(folder / "rows")}, "parts": PARTS, "rounds": [0]}
    settings.write_text(json.dumps({**asked, "variants": [*VARIANTS]}))
    home = SparkHome(
        toolchain, NOWHERE, folder, master="local[2]", long_lived=True, conf=event_log.settings(folder / "log")
    )
    own = os.pathsep.join([str(toolchain.wheel.installed), str(CHECKOUT)])
    driver = home.start(
        "optimised",
        "tests.bench.optimised_job",
        [str(settings)],
        {VARIABLE: str(folder / "events.jsonl"), "PYTHONPATH": own},
    )
    try:
        assert driver.wait(240), driver.post_mortem()
        assert driver.status() == 0, driver.post_mortem()
    finally:
        driver.kill()
    told = [one for one in rates.read_announced(folder / "events.jsonl") if one.get("round") == 0]
    by_group = {each.group: each for each in event_log.read(folder / "log")}
    return Ran({one["arm"]: one["found"] for one in told}, {arm: by_group[group(arm, 0)] for arm in VARIANTS})


def test_every_variant_counts_what_was_sent(ran: Ran) -> None:
    _, ranks, times = EVENTS.columns()
    starts = times - times % WINDOW_MS
    records = Counter(starts.tolist())
    users = Counter(start for start, _ in {*zip(starts.tolist(), ranks.tolist(), strict=True)})
    due = [[start, records[start], users[start]] for start in sorted(records)]
    assert {arm: [line[:3] for line in found] for arm, found in ran.found.items()} == dict.fromkeys(VARIANTS, due)


def test_every_variant_has_the_same_count_for_every_user(ran: Ran) -> None:
    assert len({json.dumps(found) for found in ran.found.values()}) == 1


def test_fused_operators_are_one_stage_and_the_aggregates_two_more(ran: Ran) -> None:
    assert (ran.queries[AS_IS].exchanges, len(ran.queries[AS_IS].stages)) == (2, 3)


def test_without_fusion_parse_filter_window_and_count_are_stages_of_their_own(ran: Ran) -> None:
    query = ran.queries[NOT_FUSED]
    assert (query.exchanges, len(query.stages)) == (5, 6)
    parts = [*event_log.cut_into_stages(query.plan)]
    parsed, *others, _, _ = [[line.partition(" ")[0].partition("(")[0] for line in part] for part in parts]
    assert "from_json" in " ".join(parts[0])
    assert "Filter" not in parsed
    assert others == [
        ["Exchange", "Filter", "Project"],
        ["Exchange", "Project"],
        ["Exchange", "Project", "HashAggregate"],
    ]
    assert "partial_count(1)" in parts[3][-1]


def test_a_combiner_counts_before_the_shuffle(ran: Ran) -> None:
    first, second, third = (" ".join(each) for each in event_log.cut_into_stages(ran.queries[AS_IS].plan))
    assert "partial_count(1)" in first
    assert "functions=[count(1)]" in second
    assert "partial_sum(count)" in second
    assert "partial" not in third


def test_without_a_combiner_nothing_is_counted_before_the_shuffle(ran: Ran) -> None:
    first, second, third = (" ".join(each) for each in event_log.cut_into_stages(ran.queries[NOT_COMBINED].plan))
    assert "Aggregate" not in first
    assert "partial_sum" not in second
    assert "sum(count)" in third
    assert (ran.queries[NOT_COMBINED].exchanges, len(ran.queries[NOT_COMBINED].stages)) == (2, 3)


def test_a_combiner_shuffles_a_row_for_each_user_and_window_of_a_task_instead_of_each_record(ran: Ran) -> None:
    written = {arm: [each.written_records for each in query.stages.values()] for arm, query in ran.queries.items()}
    assert written[NOT_COMBINED][0] == EVENTS.records
    _, ranks, times = EVENTS.columns()
    keys = len({*zip(ranks.tolist(), (times - times % WINDOW_MS).tolist(), strict=True)})
    assert keys <= written[AS_IS][0] <= keys * FILES < EVENTS.records
    assert written[NOT_COMBINED][1] == keys


@pytest.mark.parametrize(("less", "more"), [(AS_IS, NOT_COMBINED), (AS_IS, NOT_FUSED), (NOT_COMBINED, NEITHER)])
def test_what_is_on_shuffles_less(ran: Ran, less: str, more: str) -> None:
    (few, fewer), (many, more_records) = ran.queries[less].shuffled, ran.queries[more].shuffled
    assert 0 < few < many
    assert 0 < fewer < more_records


def _as_kafka(part: int, values: list[bytes]) -> pa.Table:
    number = len(values)
    return pa.table(
        {
            "key": pa.nulls(number, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": ["t"] * number,
            "partition": pa.array([part] * number, pa.int32()),
            "offset": pa.array(range(number), pa.int64()),
            "timestamp": pa.array([0] * number, pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * number, pa.int32()),
        }
    )
