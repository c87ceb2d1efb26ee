"""What a recorded step answers, at the edges of every type: refused before it is recorded, or shown by all sinks."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once import Pipeline, RecordedStep, ToFiles, ToKafka, ToTable
from effectively_once.errors import StepError
from tests.depth import examples
from tests.fuzz.declarations import ROW_SINKS
from tests.fuzz.literals import DAYS, MICROSECONDS, TEXTS
from tests.fuzz.rows import COLUMNS, Row, column_of
from tests.fuzz.test_in_memory import SAME
from tests.fuzz.trial_run import TrialRun
from tests.fuzz.without_spark import plain_trial

OFTEN: dict[Any, tuple[Any, ...]] = {
    pa.string(): TEXTS,
    pa.binary(): (b"", b"\xff", b"\0" * 2_680, b"\xff" * 2_700, b"x" * 33_000),
    pa.int64(): (2**63 - 1, -(2**63)),
    pa.int32(): (2**31 - 1, -(2**31)),
    pa.bool_(): (True, False),
    pa.float64(): (0.0, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, 0.1),
    pa.date32(): (*DAYS, 2**31 - 1, -(2**31), 0),
    pa.timestamp("us", "UTC"): (*MICROSECONDS, 2**63 - 1, -(2**63), 0),
}
ANSWERS = st.sampled_from([*OFTEN]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.sampled_from([*OFTEN[kind], None]), min_size=1, max_size=3))
)
VALUES = [f'{{"id":"{number}","event_time_ms":{number},"user":"ann"}}'.encode() for number in range(3)]
SMALL = pa.schema([COLUMNS.field("user")])


def declared(kind: pa.DataType, answers: list[Any], nullable: bool, keyed: bool) -> Pipeline:
    def answer(rows: pa.Table) -> pa.Table:
        given_ = [answers[int(id_) % len(answers)] for id_ in rows["id"].to_pylist()]
        return pa.table({"answer": column_of(kind, given_)})

    step = RecordedStep("asked", answer, pa.schema([pa.field("answer", kind, nullable=nullable)]))
    rows = (
        ToKafka(ROW_SINKS[0], message_bytes_max=65_536),
        ToFiles(ROW_SINKS[2]),
        ToTable(ROW_SINKS[1], key=("id", "answer") if keyed else ()),
    )
    return Pipeline(lambda frame: frame, SMALL, recorded=step, rows=rows)


def _in_order(rows: list[Row]) -> list[str]:
    return sorted(map(repr, (sorted(row.items()) for row in rows)))


@settings(SAME, max_examples=examples(150))
@given(ANSWERS, st.booleans(), st.booleans(), st.integers(1, 2))
def test_an_answer_is_refused_by_name_or_every_sink_shows_it(
    answers: tuple[pa.DataType, list[Any]], nullable: bool, keyed: bool, shards: int
) -> None:
    pipeline = declared(*answers, nullable, keyed)
    with plain_trial(pipeline, shards) as trial:
        run = TrialRun(trial, pipeline, shards)
        try:
            trial.epoch(list(VALUES))
        except StepError as error:
            assert "\n" not in str(error)
            with pytest.raises(StepError):
                trial.epoch(list(VALUES))
            return
        shown = [_in_order(run.shown(name)) for name in ROW_SINKS]
        assert shown[0] == shown[1] == shown[2]
        assert len(shown[0]) == trial.last.counts.accepted == len(VALUES)
