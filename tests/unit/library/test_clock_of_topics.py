"""Clock and chain keep partitions of two topics apart that have the same number."""

from __future__ import annotations

import pyarrow as pa
import pytest

from effectively_once.driver import clock
from effectively_once.epoch import epoch
from effectively_once.errors import ChainError
from effectively_once.ledger import continuity
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Ranges
from tests.unit.ledger.samples import declaration, record_of

RANGES: Ranges = {"orders": {"0": (0, 7)}, "refunds": {"0": (0, 9)}}
NOTHING = Head(pipeline="p", generation=1, owner="o", settings={}, last_recorded=-1)


def test_time_waits_for_the_partition_of_the_other_topic() -> None:
    shown = {"orders": {"0": 900}, "refunds": {"0": 10}}
    assert clock.watermark_ms(NOTHING, Clock(shown=shown), RANGES) == 10
    assert clock.watermark_ms(NOTHING, Clock(shown={"orders": {"0": 900}}), RANGES) is None


def test_one_that_is_idle_lets_go_of_its_own_topic_alone() -> None:
    shown = {"orders": {"0": 10}, "refunds": {"0": 900}}
    assert clock.watermark_ms(NOTHING, Clock(shown=shown, idle={"orders": ["0"]}), RANGES) == 900
    assert clock.watermark_ms(NOTHING, Clock(shown=shown, idle={"refunds": ["0"]}), RANGES) == 10


def test_a_backlog_of_one_topic_is_none_of_the_other() -> None:
    silent = [("orders", "0"), ("refunds", "0")]
    assert clock.without_backlog(silent, RANGES, {"orders": {"0": 7}, "refunds": {"0": 10}}) == {"orders": ["0"]}


def test_rows_show_the_time_of_their_own_topic() -> None:
    rows = pa.table(
        {
            "topic": ["orders", "refunds", "orders"],
            "partition": pa.array([0, 0, 0], pa.int32()),
            "event_time_ms": [900, 10, 40],
            "reason": pa.nulls(3, pa.string()),
        }
    )
    assert epoch.shown_times(rows) == {"orders": {"0": 900}, "refunds": {"0": 10}}


@pytest.mark.parametrize(
    ("refunds", "says"),
    [
        ({"0": (10, 12)}, "a gap: topic refunds partition 0 continues at offset 10, the chain ends at 9"),
        ({"0": (7, 12)}, "an overlap: topic refunds partition 0 continues at offset 7"),
        ({}, "a missing partition: topic refunds partition 0"),
    ],
)
def test_each_topic_adjoins_where_it_ended_itself(refunds: dict[str, tuple[int, int]], says: str) -> None:
    before = NOTHING.model_copy(update={"last_recorded": 0, "tail": [record_of(declaration(0, RANGES))]})
    continuity.require_adjoining(before, {"orders": {"0": (7, 8)}, "refunds": {"0": (9, 12)}}, "here")
    with pytest.raises(ChainError, match=says):
        continuity.require_adjoining(before, {"orders": {"0": (7, 8)}, "refunds": refunds}, "here")
