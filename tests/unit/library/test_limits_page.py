"""The bounds that docs/reference/limits.md states are those of the code."""

from __future__ import annotations

import re

import pytest

from effectively_once.driver.publisher import EPOCH_ATTEMPTS
from effectively_once.epoch.message_bytes import LETTER_BYTES, REASON_CHARACTERS
from effectively_once.epoch.rows import STATEFUL_TIMES_MS, TIME_MAX_MS
from effectively_once.epoch.too_large import SHORT_CHARACTERS
from effectively_once.gateway.limits import Limits
from effectively_once.ledger.segments import TAIL_LIMIT
from effectively_once.pipeline.mistakes import LEAST_BYTES, MOST_BYTES, MOST_FILTERED, MOST_WINDOWS, TEXT_BYTES
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.pipeline.sinks import MESSAGE_BYTES
from effectively_once.sinks import database, kafka, manifest_span
from effectively_once.sources.statements import PENDING_MAX
from effectively_once.sources.unreadable import FITS_MS
from effectively_once.state import own
from effectively_once.state.aggregates import MOST
from effectively_once.state.catalog.catalog import BUCKETS_MAX
from effectively_once.state.deltas import INLINE_BYTES
from effectively_once.state.lateness import LONGEST_MS
from effectively_once.store.object_store import ANSWER_S, PATIENCE_S
from infra.cluster.access import CHECKOUT
from tests.harness.definition import in_pods

PAGE = (CHECKOUT / "docs" / "reference" / "limits.md").read_text()
LIBRARY = CHECKOUT / "pipelines" / "src" / "effectively_once"

STATED = {
    "`filtered`": f"{MOST_FILTERED} reasons",
    "`window_ms`": f"1 to {LONGEST_MS:,}",
    "`length_ms`, `slide_ms` of windows": f"to {LONGEST_MS:,}",
    "windows of one `Windowed`": f"| {MOST_WINDOWS}: ",
    "`lateness_ms`, `ahead_ms`": f"0 to {LONGEST_MS:,}",
    "`message_bytes_max` of a Kafka sink": f"{LEAST_BYTES:,} to {MOST_BYTES:,}; by default {MESSAGE_BYTES:,}",
    "room that a message leaves": f"{TEXT_BYTES:,} bytes",
    "`most` of `CountDistinct` and `Collect`": f"1 to {MOST:,}",
    "Kafka timestamp": f"{FITS_MS // 10**12:,} × 10^12 ms",
    "event time |": f"{TIME_MAX_MS:,} ms",
    "event time, with `Stateful`": f"{STATEFUL_TIMES_MS[0]} to {STATEFUL_TIMES_MS[1]:,} ms",
    "a dead letter": f"{LETTER_BYTES:,} bytes | `epoch/messages.py` | written as base64, with null for its id and "
    f"{REASON_CHARACTERS:,} characters",
    "text or bytes of an `OwnAggregate`": f"{own.TEXT_BYTES:,} bytes",
    "values in the dead letter of a result": f"{SHORT_CHARACTERS:,} characters",
    "attempts at an epoch": f"{EPOCH_ATTEMPTS}",
    "epoch records in head": f"{TAIL_LIMIT}",
    "a delta in its epoch's record": f"{INLINE_BYTES:,} bytes",
    "buckets of ids": f"{BUCKETS_MAX}",
    "statements of a source": f"{PENDING_MAX:,}",
    "epochs in a span": f"{manifest_span.EPOCHS:,}",
    "object store, to be back": f"{PATIENCE_S:.0f} s; {ANSWER_S:.0f} s an answer",
    "Kafka, one commit": f"{kafka.COMMIT_TIMEOUT_S:.0f} s",
    "Kafka, a topic that is unknown": f"{kafka.PROPAGATION_MS // 1000} s",
    "PostgreSQL, silence": f"{database.PATIENCE_S:.0f} s; {database.STATEMENT_MS // 1000} s a statement, "
    f"{database.LOCK_MS // 1000} s a lock",
    "PostgreSQL, an open transaction": f"{database.IDLE_MS // 1000} s",
    "`segment_bytes`": f"{Limits().segment_bytes >> 20} MiB",
    "`capacity_bytes`": f"{Limits().capacity_bytes >> 30} GiB",
    "`record_bytes_max`": f"{Limits().record_bytes_max:,}",
    "`answer_timeout_s`": f"{Limits().answer_timeout_s:.0f} s",
    "files of a pipeline of yours": f"{in_pods.MOST_BYTES:,} bytes",
}
"""Where a row begins, and what the code says of it."""


@pytest.mark.parametrize("begins", STATED)
def test_a_bound_is_the_one_of_the_code(begins: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {begins}")]
    assert STATED[begins] in row


@pytest.mark.parametrize("name", ["shards", "epoch_rows_max", "transaction_timeout_s", "start_patience_s"])
def test_a_setting_has_the_range_and_default_of_its_field(name: str) -> None:
    field = PipelineSettings.model_fields[name]
    bounds = {type(one).__name__: getattr(one, type(one).__name__.lower()) for one in field.metadata}
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}`")]
    assert f"| {bounds['Ge']:,} to {bounds['Le']:,}" in row
    assert row.endswith(f"| {field.default:,.0f} |")


def test_every_file_that_enforces_a_bound_is_there() -> None:
    files = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", PAGE))
    assert len(files) > 20
    missing = [file for file in files if not (LIBRARY / file).is_file() and not (CHECKOUT / file).is_file()]
    assert missing == []
