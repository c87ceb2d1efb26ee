"""What a run sends: a seeded stream or a file, with settings under which no usable row of it is late."""

from __future__ import annotations

import tempfile
from pathlib import Path

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.subject import from_file
from tests.harness.workload.errors import InputError
from tests.harness.workload.record import is_late

AT = 1_700_000_000_000
TIMES = st.lists(st.integers(AT, AT + 7 * 86_400_000), min_size=1, max_size=40)


def as_jsonl(folder: Path, times: list[object]) -> Path:
    path = folder / "events.jsonl"
    path.write_bytes(b"".join(orjson.dumps({"who": f"u{n % 3}", "when": time}) + b"\n" for n, time in enumerate(times)))
    return path


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"who": "ann", "when": "soon"}\n', r"none of its 1 rows .*1 without a usable 'when'\): check KEY and TIME"),
        ('{"who": "", "when": 1700000000000}\n', r"none of its 1 rows .*1 without 'who'"),
        ('not json\n["nor", "a row"]\n', r"none of its 2 lines is a JSON object"),
        ('not json\n{"who": "", "when": 1700000000000}\n', r"none of its 2 rows .*1 broken, 1 without 'who'"),
    ],
)
def test_a_file_without_a_usable_row_is_refused_with_what_is_wrong(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=says) as refused:
        from_file(path, "who", "when")
    assert str(path) in str(refused.value)


def test_one_usable_row_is_enough(tmp_path: Path) -> None:
    subject = from_file(as_jsonl(tmp_path, ["soon", AT, None]), "who", "when")
    assert (subject.numbers.sent, subject.numbers.malformed_sent) == (3, 2)
    assert subject.epoch_rows_max >= 1


@given(times=TIMES)
@example(times=[AT + 6 * 86_400_000, AT])
def test_the_allowed_lateness_covers_the_disorder_of_the_file(times: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subject = from_file(as_jsonl(Path(folder), list(times)), "who", "when")
        records = list(subject.records())
    latest: int | None = None
    for record in records:
        assert record.event_time_ms is not None
        # The worst watermark: everything before the row was read by an epoch before the row's own.
        assert not is_late(record.event_time_ms, latest, subject.window_ms, subject.lateness_ms)
        assert latest is None or latest - record.event_time_ms < subject.lateness_ms
        latest = record.event_time_ms if latest is None else max(latest, record.event_time_ms)
    assert subject.pace.lateness_ms == subject.lateness_ms


def test_a_file_names_its_columns_and_gives_the_same_bytes_again(tmp_path: Path) -> None:
    subject = from_file(as_jsonl(tmp_path, [AT, AT + 5, "soon"]), "who", "when")
    assert subject.named == {"input": "events.jsonl", "key": "who", "time": "when"}
    first, again = ([record.value for record in subject.records()] for _ in range(2))
    assert first == again
    assert len(first) == 3
    longer = from_file(as_jsonl(tmp_path, [AT + n for n in range(120)]), "who", "when", epochs=12)
    assert longer.epoch_rows_max == 10, "it is read in some epochs, so that kills can hit"
    assert longer.pace.max_outstanding >= longer.epoch_rows_max
