"""A user's own events: three kinds of file, whole and broken."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness.workload.errors import InputError
from tests.harness.workload.file_input import MAX_ROW_BYTES, FileInput, Survey, records, survey
from tests.harness.workload.record import Planned, checksum

AT = 1_700_000_000_000
ROWS: list[dict[str, Any]] = [
    {"who": "ann", "when": "2023-11-14T22:13:30Z", "amount": "5"},
    {"who": "bob", "when": "2023-11-14T22:13:20Z", "amount": "7"},
    {"who": "bob", "when": "2023-11-14T22:13:20Z", "amount": "7"},
    {"who": "", "when": "2023-11-14T22:13:21Z", "amount": "9"},
    {"who": "cyd", "when": "soon", "amount": "11"},
    {"who": "ann", "when": str(AT + 40_000), "amount": 'a "quoted", naïve\nline'},
]
SURVEY = Survey(rows=6, broken=0, missing_keys=1, bad_times=1, first_ms=AT, last_ms=AT + 40_000, disorder_ms=10_000)


def as_csv(rows: list[dict[str, Any]], folder: Path) -> Path:
    text = io.StringIO()
    for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]:
        text.write(",".join('"' + str(cell).replace('"', '""') + '"' for cell in row.values()) + "\r\n")
    path = folder / "events.csv"
    path.write_bytes(text.getvalue().encode())
    return path


def as_jsonl(rows: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "events.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
    return path


def as_parquet(rows: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "events.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
    return path


WRITERS = [as_csv, as_jsonl, as_parquet]


def planned(path: Path, key: str = "who", time: str = "when") -> list[Planned]:
    return list(records(path, key, time))


@pytest.mark.parametrize("write", WRITERS)
def test_the_same_rows_give_the_same_records_in_every_kind_of_file(write: Any, tmp_path: Path) -> None:
    path = write(ROWS, tmp_path)
    found = planned(path)
    assert survey(path, "who", "when") == SURVEY
    assert SURVEY.numbers.sent == 6
    assert SURVEY.numbers.malformed_sent == 2
    assert [record.id for record in found] == [f"row-{number}" for number in range(1, 7)]
    assert [record.n for record in found] == list(range(6))
    assert [record.reason for record in found] == [None, None, None, "missing_user", "bad_time", None]
    assert [record.kind for record in found] == ["fresh", "fresh", "fresh", "malformed", "malformed", "fresh"]
    assert [record.event_time_ms for record in found] == [AT + 10_000, AT, AT, AT + 1_000, None, AT + 40_000]
    assert [orjson.loads(record.payload or "") for record in found] == ROWS
    for record in found:
        assert record.gate is None
        content = orjson.loads(record.value)
        assert content["id"] == record.id
        if record.kind == "fresh":
            assert record.user is not None
            assert record.event_time_ms is not None
            assert record.payload is not None
            assert record.crc == checksum(str(record.id), record.user, record.event_time_ms, record.payload)
            assert content == {name: getattr(record, name) for name in content}
            assert record.key == record.user.encode()
    assert "user" not in orjson.loads(found[3].value)
    assert found[3].key is None
    assert orjson.loads(found[4].value)["event_time_ms"] == "soon"
    assert list(FileInput(path, "who", "when")) == found, "read again, it is the same"


@pytest.mark.parametrize("write", WRITERS)
def test_one_row_is_enough(write: Any, tmp_path: Path) -> None:
    path = write(ROWS[:1], tmp_path)
    assert survey(path, "who", "when") == Survey(1, 0, 0, 0, AT + 10_000, AT + 10_000, 0)
    assert len(planned(path)) == 1


def test_broken_csv_rows_are_sent_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(
        b"\xef\xbb\xbfwho,when,note\r\n"
        b"ann,1700000000,fine\r\n"
        b"bob,1700000001\r\n"
        b"\r\n"
        b'cyd,1700000002,"two\r\nlines",more\r\n'
        b"7\r\n"
        b'dan,1700000003,"two\r\nlines"\r\n'
    )
    found = planned(path)
    assert [record.reason for record in found] == [None, "not_json", "not_json", "not_json", None]
    assert [record.value for record in found[1:4]] == [
        b"row-2: bob,1700000001",
        b'row-3: cyd,1700000002,"two\r\nlines",more',
        b"row-4: 7",
    ]
    for record in found[1:4]:
        assert (record.id, record.user, record.key, record.crc) == (None, None, None, None)
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(record.value)
    assert orjson.loads(found[4].payload or "")["note"] == "two\r\nlines"
    assert survey(path, "who", "when") == Survey(5, 3, 0, 0, AT, AT + 3_000, 0)


def test_a_quote_never_closed_costs_its_rows_not_the_run(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    lines = ["who,when", "ann,1700000000", 'bob,"1700000001']
    path.write_text("\n".join([*lines, *(f"u{n},1700000002" for n in range(15_000))]))
    found = planned(path)
    assert [record.reason for record in found[:3]] == [None, "not_json", None]
    assert found[1].value.startswith(b'row-2: bob,"1700000001\nu0,')
    sent = sum(record.value.count(b",17000000") for record in found if record.reason)
    assert sent + sum(record.kind == "fresh" for record in found) == 15_001, "no row is lost"


def test_broken_json_lines_are_sent_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"who": "ann", "when": 1700000000}\r\n'
        b'{"who": "bob", "when": 17\n'
        b"\n"
        b"[1, 2]\n"
        b'"text"\n'
        b'{"who": "caf\xe9", "when": 1700000001}\n'
        b'{"when": 1700000002}\n'
        b'{"who": "dan"}\n'
        b'{"who": 42, "when": 1700000003.5, "deep": {"a": [1, null]}}'
    )
    found = planned(path)
    assert [record.reason for record in found] == [None, *["not_json"] * 4, "missing_user", "bad_time", None]
    assert found[4].value == b'row-5: {"who": "caf\xe9", "when": 1700000001}'
    assert (found[7].user, found[7].event_time_ms) == ("42", AT + 3_500)
    assert found[7].payload == '{"who": 42, "when": 1700000003.5, "deep": {"a": [1, null]}}', "as it came"
    assert survey(path, "who", "when") == Survey(8, 4, 1, 1, AT, AT + 3_500, 0)


def test_parquet_columns_of_every_type(tmp_path: Path) -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    table = pa.table(
        {
            "ns": pa.array([AT * 10**6 + 123_456_789, None], pa.timestamp("ns")),
            "zoned": pa.array([moment, None], pa.timestamp("us", "Europe/Berlin")),
            "early": pa.array([5, -5], pa.timestamp("ms")),
            "far": pa.array([300_000_000_000, 1], pa.timestamp("s")),
            "day": pa.array([moment.date(), None], pa.date32()),
            "key": pa.array([1, 2], pa.int64()).cast(pa.float64()),
            "name": pa.array(["a", None]).dictionary_encode(),
            "raw": pa.array([b"\x00\xff", None]),
            "price": pa.array([Decimal("1.50"), None]),
            "nan": pa.array([float("nan"), 1.0]),
            "infinite": pa.array([float("inf"), float("-inf")]),
            "lasts": pa.array([timedelta(seconds=1), None]),
            "nested": pa.array([{"at": moment}, None]),
            "map": pa.array([[(1, "x")], []], pa.map_(pa.int64(), pa.string())),
        }
    )
    path = tmp_path / "EVENTS.PARQUET"
    pq.write_table(table, path)
    times = {name: [record.event_time_ms for record in planned(path, "key", name)] for name in table.column_names[:5]}
    assert times == {
        "ns": [AT + 123, None],
        "zoned": [AT + 123, None],
        "early": [5, None],
        "far": [None, 1_000],
        "day": [1_699_920_000_000, None],
    }
    assert [record.user for record in planned(path, "key", "ns")] == ["1.0", "2.0"]
    assert [record.user for record in planned(path, "name", "ns")] == ["a", None]
    assert [record.user for record in planned(path, "raw", "ns")] == ["00ff", None]
    assert [record.user for record in planned(path, "nan", "early")] == [None, "1.0"]
    assert [record.user for record in planned(path, "infinite", "early")] == [None, None]
    payload = orjson.loads(planned(path, "key", "ns")[0].payload or "")
    assert list(payload) == table.column_names
    assert payload["ns"] == "2023-11-14 22:13:20.123456789"
    assert payload["price"] == "1.50"
    assert payload["raw"] == "00ff"


def test_a_time_out_of_range_never_looks_like_a_time_on_the_wire(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"k": ["a", "b"], "t": pa.array([300_000_000_000_000, -7], pa.timestamp("ms"))}), path)
    sent = [orjson.loads(record.value)["event_time_ms"] for record in records(path, "k", "t")]
    assert sent == ["out of range: 300000000000000", -7]


@pytest.mark.parametrize(
    ("times", "found"),
    [
        # Disorder is that of usable rows only.
        (
            [("a", 100), ("", 10_000), ("a", 40), ("a", 200), ("a", 150), ("a", 90), ("a", 300)],
            Survey(7, 0, 1, 0, 40_000, 300_000, 110_000),
        ),
        ([("a", '"never"')], Survey(1, 0, 0, 1, None, None, 0)),
    ],
)
def test_a_survey_is_of_usable_rows(tmp_path: Path, times: list[tuple[str, object]], found: Survey) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(f'{{"k": "{key}", "t": {at}}}' for key, at in times))
    assert survey(path, "k", "t") == found


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("e.csv", b"", "the file is empty"),
        ("e.csv", b"who,when\n", "the file has no rows"),
        ("e.csv", b"\n\n", r"column 'who' \(KEY\) is not there"),
        ("e.csv", b"user,when\na,1\n", r"column 'who' \(KEY\) is not there; columns are: user, when$"),
        ("e.csv", b"who,at\na,1\n", r"column 'when' \(TIME\) is not there; columns are: who, at$"),
        ("e.csv", b"who;when\na;1\n", r"columns are: who;when; is the separator a comma\?"),
        ("e.csv", b"who,when,who\na,1,b\n", r"column 'who' \(KEY\) appears more than once"),
        ("e.csv", b"who,when\ncaf\xe9,1\n", r"line 2 is not UTF-8 text \(invalid continuation byte\); convert it"),
        ("e.csv", "who,when\na,1\n".encode("utf-16"), "not UTF-8 text"),
        ("e.csv", b'"' + b"x" * 140_000, "the first line names no columns"),
        (
            "e.csv",
            b"who,when\n" + b"x" * (MAX_ROW_BYTES + 1) + b"\n",
            "row 1 has 1048577 bytes, a record can hold 1048576",
        ),
        ("e.jsonl", b"", "the file is empty"),
        ("e.jsonl", b"\n\n", "the file has no rows"),
        ("e.jsonl", b'{"user": 1, "at": 2}\n{"more": 3}', r"'who' \(KEY\) is not there; columns are: user, at, more"),
        ("e.jsonl", b'{"who": 1, "at": 2}', r"'when' \(TIME\) is not there; columns are: who, at"),
        ("e.jsonl", b"who,when\na,1\n", "none of its 2 lines is a JSON object"),
        ("e.jsonl", '{"who": 1, "when": 2}'.encode("utf-16-le"), "not UTF-8 text"),
        (
            "e.jsonl",
            b'{"who": 1, "when": 1}\n{"who": "' + b"x" * MAX_ROW_BYTES + b'", "when": 1}',
            rf"row 2 has \d+ bytes, a record can hold {MAX_ROW_BYTES}; shorten it",
        ),
        ("e.parquet", b"PAR1 and no more", "not a readable Parquet file: .*; write it again"),
        ("e.xlsx", b"x", r"unknown kind of file '.xlsx'; give one of .csv, .jsonl, .parquet"),
        ("events", b"x", "unknown kind of file ''"),
    ],
)
def test_unusable_files_are_refused_by_name_before_anything_is_sent(
    name: str, content: bytes, says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as refused:
        survey(path, "who", "when")
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_empty_or_damaged_parquet_file_and_a_wrong_column_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"who": pa.array([], pa.string()), "when": pa.array([], pa.int64())}), path)
    with pytest.raises(InputError, match="the file has no rows"):
        survey(path, "who", "when")
    with pytest.raises(InputError, match=r"column 'at' \(TIME\) is not there; columns are: who, when"):
        survey(path, "who", "at")
    content = bytearray(as_parquet(ROWS, tmp_path).read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a readable Parquet file"):
        survey(path, "who", "when")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, says in (("none", r"none\.csv: there is no such file; check"), ("folder", "this is not a file")):
        with pytest.raises(InputError, match=says):
            survey(tmp_path / f"{name}.csv", "who", "when")


@pytest.mark.parametrize(("key", "time", "says"), [("", "when", "KEY is not given"), ("who", "", "TIME is not given")])
def test_both_columns_must_be_named(key: str, time: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        records(tmp_path / "e.csv", key, time)


def test_columns_of_one_name_all_stay_in_the_payload(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("k,t,x,x,x\na,1,2,3,4\n")
    assert planned(path, "k", "t")[0].payload == '{"k":"a","t":"1","x":"2","x#2":"3","x#3":"4"}'
