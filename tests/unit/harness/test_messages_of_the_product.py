"""What the product writes passes the judge; planted bugs in how it does so are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest

from effectively_once.epoch.messages import dead_letters, messages
from effectively_once.pipeline.columns import COORDINATES, DEAD_LETTER
from effectively_once.pipeline.sinks import ToKafka
from effectively_once.sinks.kafka_shard import Row as Message
from effectively_once_jobs.user_counts import pipeline
from tests.harness.adapters.whole_message import whole
from tests.harness.checkers.expectations import DeadLetterRows
from tests.harness.checkers.messages import Look
from tests.harness.checkers.reference import Outcome
from tests.harness.checkers.xxhash64 import shard_of
from tests.harness.schemas import USER_COUNTS
from tests.harness.sends import Send
from tests.unit.harness.fake_message import FakeMessage

EPOCH, SHARDS = 3, 2
Change = Callable[[bytes | None, dict[str, Any]], Message]
NOT_TEXT = b"\xff\xfe"
RAW = (NOT_TEXT, b"plain text", b'{"id":"bad-1"}')


def accepted() -> list[Message]:
    """Rows of one shard, in source order."""
    ids = [f"i{n}" for n in range(40) if shard_of(f"i{n}", SHARDS) == 0]
    rows = [
        {
            "topic": "events",
            "partition": 0,
            "offset": offset,
            "id": id_,
            "event_time_ms": 5,
            "user": f"ü{offset}",
            "payload": '"\\ ✓',
            "crc": 2**32 - 1,
        }
        for offset, id_ in enumerate(ids)
    ]
    return messages(_to("accepted"), pa.Table.from_pylist(rows, pipeline.row_schema), EPOCH)


def counts() -> list[Message]:
    """Counts of one shard, by window and user."""
    users = sorted(f"u{n}" for n in range(40) if shard_of(f"u{n}", SHARDS) == 0)
    rows = [{"user": user, "window_start_ms": start, "count": 7} for start in (0, 60_000) for user in users]
    return messages(_to("user_counts"), pa.Table.from_pylist(rows), EPOCH)


def dead() -> list[Message]:
    """Malformed records of one shard."""
    schema = pa.schema([*COORDINATES, ("id", pa.string()), ("reason", pa.string()), ("value", pa.binary())])
    return dead_letters(
        pa.Table.from_pylist(
            [
                {
                    "topic": "events",
                    "partition": 1,
                    "offset": send.offset,
                    "id": send.id,
                    "reason": send.reason,
                    "value": raw,
                }
                for send, raw in zip(sends(), RAW, strict=True)
            ],
            schema,
        ),
        EPOCH,
    )


def sends() -> list[Send]:
    """What was sent: two records that are no JSON, one without a user; all of one shard."""
    offsets = [at for at in range(40) if shard_of(f"events-1-{at}", SHARDS) == shard_of("bad-1", SHARDS)][:3]
    told = [
        ("not_json", "//4=", "base64"),
        ("not_json", "plain text", "utf-8"),
        ("missing_user", RAW[2].decode(), "utf-8"),
    ]
    ids = [None, None, "bad-1"]
    return [
        Send(id_, None, None, None, "malformed", reason, "events", 1, offset, value, encoding)
        for (reason, value, encoding), offset, id_ in zip(told, offsets, ids, strict=True)
    ]


def _to(sink: str) -> ToKafka:
    to, _ = pipeline.sinks[sink]
    assert isinstance(to, ToKafka)
    return to


def looked_at(sink: str, written: Sequence[Message]) -> list[str]:
    """Judge messages that stand in the partition of their shard; what is wrong with them."""
    shard = shard_of("bad-1", SHARDS) if sink == DEAD_LETTER else 0
    look = Look(sink, USER_COUNTS[sink], lambda _: SHARDS)
    letters = DeadLetterRows(sends(), bytearray([Outcome.MALFORMED] * 3), [EPOCH] * 3)
    found = []
    for offset, (key, value) in enumerate(written):
        row = {"sink": sink, **whole(FakeMessage(value, key)), "partition": shard, "offset": offset}
        look.take(row)
        if sink == DEAD_LETTER:
            fault = letters.fault_in(letters.key_of(row), row)
            found += [fault] if fault else []
    return look.broken + found


MADE = {"accepted": accepted, "user_counts": counts, DEAD_LETTER: dead}


@pytest.mark.parametrize("sink", MADE)
def test_what_the_product_writes_passes(sink: str) -> None:
    written = MADE[sink]()
    assert len(written) > 2
    assert looked_at(sink, written) == []


def _line(fields: dict[str, Any], **more: Any) -> bytes:
    return orjson.dumps({**fields, **more})


PLANTED: dict[str, tuple[str, Change, str]] = {
    "every key of a count is x": ("user_counts", lambda _, fields: (b"x", _line(fields)), "key b'x', due is"),
    "ids of malformed records lost": (
        DEAD_LETTER,
        lambda key, fields: (key, _line(fields, id=None)),
        "id None, sent was 'bad-1'",
    ),
    "blanks behind commas": (
        "accepted",
        lambda key, fields: (key, _line(fields).replace(b',"', b', "')),
        "is not the compact JSON",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_bug_is_named(what: str) -> None:
    """What passes above is looked at: a bug in each sink. All others are judged in `test_messages_judged`."""
    sink, change, said = PLANTED[what]
    written = [change(key, orjson.loads(value)) for key, value in MADE[sink]()]
    assert any(said in fault for fault in looked_at(sink, written))


def test_rows_that_are_not_in_source_order_are_named() -> None:
    assert "it is due before the row" in looked_at("accepted", accepted()[::-1])[0]
