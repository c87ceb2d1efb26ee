"""The newest row of a customer is that of its newest change, in whatever order changes arrive."""

import json
from dataclasses import replace

import pytest

from cdc import pipeline
from effectively_once import Outputs, PipelineError, ToTable, Trial, trial_session
from records import START_MS, lines


@pytest.fixture(scope="module")
def published() -> Outputs:
    """All that 1,000 records come to, sent in five epochs."""
    found: Outputs = {}
    trial, sent = Trial(pipeline, trial_session()), lines(1000, seed=7)
    for first in range(0, 1000, 200):
        for sink, rows in trial.epoch(sent[first : first + 200]).items():
            found.setdefault(sink, []).extend(rows)
    return found


def test_the_newest_row_is_the_newest_change(published: Outputs) -> None:
    refused = {row["id"] for row in published["dead_letter"]}
    # 800 changes are 66 minutes; a minute closes five minutes after its end.
    until_ms = max(row["window_start_ms"] for row in published["states"]) + 60_000
    assert START_MS + 58 * 60_000 <= until_ms <= START_MS + 61 * 60_000
    due = {}
    for change in sorted(map(json.loads, lines(1000, seed=7)), key=lambda change: change["event_time_ms"]):
        if change["id"] not in refused and change["event_time_ms"] < until_ms:
            gone = change["op"] == "d"
            kept = ("", "") if gone else (change["email"], change["tier"])
            due[change["customer"]] = (*kept, gone, change["event_time_ms"])
    rows = sorted(published["states"], key=lambda row: row["window_start_ms"])
    # DISTINCT ON (customer) ... ORDER BY customer, window_start_ms DESC
    newest = {row["customer"]: (row["email"], row["tier"], row["deleted"], row["changed_ms"]) for row in rows}
    assert newest == due
    assert {gone for _, _, gone, _ in due.values()} == {True, False}


def test_a_change_of_no_row_or_half_an_hour_late_is_a_dead_letter(published: Outputs) -> None:
    assert {row["reason"] for row in published["dead_letter"]} == {"unknown_op", "late"}


def test_a_table_whose_rows_would_replace_each_other_in_the_order_of_arrival_is_refused() -> None:
    by_customer = ToTable("customers", key=("customer",))
    with pytest.raises(PipelineError, match="rows of one customer are in several shards"):
        replace(pipeline, rows=(by_customer,))
    with pytest.raises(PipelineError, match="would get two rows of one customer at once"):
        replace(pipeline, windows=(replace(pipeline.windows[0], to=by_customer),))
