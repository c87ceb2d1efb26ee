"""Whatever of a message is not what its job defines fails the run, with the row's name; a right one passes."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.harness.fabricated_files import FIELDS, Row, wire
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_run
from tests.unit.harness.recorded_run import on_each_run
from tests.unit.harness.tamper import manifest, observed, sent

Change = Callable[[list[Row]], Any]
OWN = ("user", "window_start_ms", "count", "epoch")


def each(change: Callable[[Row], Any], where: Callable[[Row], bool] = lambda _: True) -> Change:
    """Change every row that is meant; there has to be one."""

    def change_all(rows: list[Row]) -> None:
        meant = [row for row in rows if where(row)]
        assert meant
        for row in meant:
            change(row)

    return change_all


def message(**more: Any) -> Change:
    return each(lambda row: row["message"].update(more))


def letters(change: Callable[[Row], Any], *reasons: str) -> Change:
    return each(change, lambda row: row["reason"] in reasons)


def value_of(form: Callable[[Row], str]) -> Change:
    """The whole value was kept, as a reader does that finds it in another form."""
    return each(lambda row: row["message"].update(value=form({name: row[name] for name in OWN})))


def swapped(alike: Callable[[Row, Row], bool]) -> Change:
    """Two rows of a partition, one behind the other, change places."""

    def change(rows: list[Row]) -> None:
        for one, other in pairwise(rows):
            if one["partition"] == other["partition"] and alike(one, other):
                places = [(row["partition"], row["offset"]) for row in (one, other)]
                kept = dict(one)
                for row, content, place in ((one, dict(other), places[0]), (other, kept, places[1])):
                    row.clear()
                    row.update(content, partition=place[0], offset=place[1])
                return
        pytest.fail("no two rows to swap")

    return change


def move_last(rows: list[Row]) -> None:
    """The last row of one partition stands at the end of the other."""
    row = next(row for row in reversed(rows) if row["partition"] == 0)
    ends = max(one["offset"] for one in rows if one["partition"] == 1)
    rows.remove(row)
    rows.append({**row, "partition": 1, "offset": ends + 1})


def blanks(row: Row) -> None:
    row["value"] = json.dumps(json.loads(row["value"]), ensure_ascii=False)


def in_base64(row: Row) -> None:
    row.update(value=base64.b64encode(row["value"].encode()).decode(), encoding="base64")


def as_text(row: Row) -> None:
    row.update(encoding="utf-8")


def reorder(row: Row) -> None:
    fields = dict(row)
    row.clear()
    row.update(reversed(fields.items()))


IN_ANOTHER_ORDER = swapped(lambda one, other: one["epoch"] == other["epoch"])
WRONG_MESSAGES: dict[str, tuple[str, Change, str]] = {
    "every key the same": ("accepted", message(key="x"), "key b'x', due is b'"),
    "no key": ("user_counts", message(key=None), "key None, due is b'"),
    "a key that is none": ("dead_letter", message(key="x"), "key b'x', due is None"),
    "a key in bytes": ("accepted", message(key="/w==", key_encoding="base64"), r"key b'\xff', due is"),
    "a field more": ("user_counts", each(lambda row: row.update(sum=-1)), "with sum -1, which it should"),
    "a field more in files": ("global_counts", each(lambda row: row.update(sum=-1)), "with sum -1"),
    "a field less": ("dead_letter", each(lambda row: row.pop("encoding")), "without encoding"),
    "a field of another type": (
        "accepted",
        each(lambda row: row.update(event_time_ms=float(row["event_time_ms"]))),
        ".0, due is integer",
    ),
    "fields in another order": ("accepted", each(reorder), "fields in the order source, epoch, crc"),
    "a header": ("accepted", message(headers=[["trace", "1"]]), "headers [['trace', '1']], due are none"),
    "the broker's time": ("user_counts", message(timestamp="LogAppendTime"), "of type LogAppendTime"),
    "a name twice": (
        "user_counts",
        value_of(lambda own: wire(own).decode().replace("{", '{"user":"a",')),
        "is not the compact JSON of its fields",
    ),
    "blanks": ("user_counts", value_of(json.dumps), "is not the compact JSON of its fields"),
    "no JSON": ("user_counts", value_of(lambda _: "count"), "value b'count' is no JSON object"),
    "no value": ("user_counts", value_of(lambda _: None), "value None is no JSON object"),  # type: ignore[arg-type,return-value]
    "another partition": ("accepted", move_last, "in partition 1, due is 0 by its id"),
    "another partition of a count": ("user_counts", move_last, "in partition 1, due is 0 by its user"),
    "records in another order": ("accepted", IN_ANOTHER_ORDER, "by source it is due before the row at offset"),
    "dead letters in another order": ("dead_letter", IN_ANOTHER_ORDER, "by source it is due"),
    "counts in another order": ("user_counts", IN_ANOTHER_ORDER, "by window_start_ms, user it is due before"),
    "an epoch that falls": ("accepted", swapped(lambda one, other: one["epoch"] < other["epoch"]), " behind epoch "),
}
WRONG_LETTERS: dict[str, tuple[Change, str]] = {
    "base64 over plain text": (each(lambda row: row.update(encoding="base64")), "corrupted"),
    "base64 of text": (letters(in_base64, "late"), "encoding base64, due is utf-8"),
    "base64 of malformed text": (letters(in_base64, "missing_user"), "encoding base64, due is utf-8"),
    "text that is base64": (each(as_text, lambda row: row["encoding"] == "base64"), "in utf-8, sent was"),
    "blanks in a late letter": (letters(blanks, "late"), "byte for byte"),
    "blanks in a malformed letter": (letters(blanks, "missing_user"), "sent was"),
    "an id lost": (letters(lambda row: row.update(id=None), "missing_user", "bad_time"), "id None, sent was '"),
    "the id of a late record lost": (letters(lambda row: row.update(id=None), "late"), "id None, sent"),
    "an id that nothing was sent with": (
        letters(lambda row: row.update(id="x"), "missing_id", "not_json"),
        "id 'x', sent",
    ),
}
"""What the oracle of messages finds of a sink, and what the one of the multiset does of dead letters."""
WRONG = [
    *(("messages", *one) for one in WRONG_MESSAGES.items()),
    *(("multiset", what, ("dead_letter", *wrong)) for what, wrong in WRONG_LETTERS.items()),
]


@on_each_run
def test_a_right_run_passes_by_every_row_of_every_sink(clean: Path) -> None:
    results = expect(clean, PASS, "messages")
    oracle, rows = results.oracle("messages"), sum(output.observed for output in results.outputs.values())
    assert oracle.number == 7
    assert oracle.says.startswith(f"{rows} rows in {len(results.outputs)} sinks")
    assert results.oracle("multiset").verdict is PASS, results.reasons


@pytest.mark.parametrize(("by", "what", "wrong"), WRONG, ids=[what for _, what, _ in WRONG])
@pytest.mark.thinned(3)
def test_what_is_not_as_defined_fails_and_names_the_row(
    clean: Path, tmp_path: Path, by: str, what: str, wrong: tuple[str, Change, str]
) -> None:
    sink, change, said = wrong
    run = Path(shutil.copytree(clean, tmp_path / clean.name))
    observed(sink, change)(run)
    found = [line for line in expect_run(run, FAIL, by, said).oracle(by).evidence if said in line]
    assert found[0].startswith(f"{sink}: ")
    assert any(name in found[0] for name in ("id ", "user ", "window_start_ms "))
    assert sink == "global_counts" or f" at {sink}/" in found[0]


def test_first_ten_rows_are_named_and_the_rest_counted(run: Path) -> None:
    observed("accepted", message(key="x"))(run)
    results = expect(run, FAIL, "messages")
    oracle, rows = results.oracle("messages"), results.outputs["accepted"].observed
    assert (len(oracle.evidence), oracle.evidence[-1]) == (11, f"... and {rows - 10} more")
    assert f"{rows} of accepted" in oracle.says


def _accepted(change: Callable[[Row], Any]) -> Callable[[Path], None]:
    return observed("accepted", lambda rows: change(rows[5]))


UNSEEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "another schema": (
        manifest(lambda said: said["schemas"]["user_counts"]["fields"].update(sum="integer")),
        "schemas are not those of the job's definition",
    ),
    "a sink without a schema": (manifest(lambda said: said["schemas"].pop("accepted")), "schemas are not those"),
    "a message not looked at": (_accepted(lambda row: row.pop("message")), "was not looked at whole"),
    "a message without its key": (_accepted(lambda row: row["message"].pop("key")), "was not looked at whole"),
    "a key that cannot be read": (
        _accepted(lambda row: row["message"].update(key="?", key_encoding="base64")),
        "key of a message cannot be read",
    ),
    "a row from nowhere": (_accepted(lambda row: row.pop("offset")), "does not say where it was read"),
    "rows not in the order of offsets": (_accepted(lambda row: row.update(offset=10**9)), "was read after 1000000000"),
}


@pytest.mark.parametrize("what", UNSEEN)
def test_what_was_not_looked_at_is_unknown(run: Path, what: str) -> None:
    does, said = UNSEEN[what]
    does(run)
    assert expect(run, UNKNOWN, "messages", said).verdict is not PASS


def test_malformed_records_whose_bytes_nobody_kept_are_unknown(run: Path) -> None:
    sent(lambda rows: [row.pop("encoding", None) for row in rows])(run)
    assert expect(run, UNKNOWN, "multiset", "does not hold its bytes").verdict is not PASS


def test_a_sink_that_cannot_be_read_does_not_hide_the_offences_of_another(run: Path) -> None:
    (run / "observed" / "dead_letter.jsonl").unlink()
    observed("accepted", message(key="x"))(run)
    expect(run, FAIL, "messages")


def test_a_run_recorded_before_says_so_and_is_unknown_in_that(run: Path) -> None:
    manifest(lambda told: told.pop("schemas"))(run)
    results = expect_run(run, UNKNOWN, "messages", "recorded before messages were looked at whole")
    assert results.oracle("multiset").verdict is PASS, results.reasons


def test_bytes_of_a_late_record_are_those_of_its_fields_in_their_order(run: Path) -> None:
    """The same JSON with other bytes is not what was sent."""

    def turn(row: Row) -> None:
        content = json.loads(row["value"])
        row["value"] = wire({name: content[name] for name in reversed(FIELDS)}).decode()

    observed("dead_letter", letters(turn, "late"))(run)
    expect(run, FAIL, "multiset", "byte for byte")
