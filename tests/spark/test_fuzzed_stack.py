"""Records of any kind through all sinks, a hundred thousand or as asked: no driver stops, no two sinks disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from effectively_once.state.accumulator import SUM_TOO_LARGE
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.database import postgres
from tests.fuzz.chosen import RECORDS, drawn, note
from tests.fuzz.records import CLOSER, many
from tests.fuzz.results import result
from tests.fuzz.rows import Row, row_of
from tests.spark.fuzzed import Coordinate, Fuzzed, ordered
from tests.spark.fuzzed_job import pipeline
from tests.spark.pipeline import PARTITIONS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(5_400)]

FAR = RECORDS // 20
NEAR = RECORDS - FAR
STOPPED_S = 60.0


@pytest.fixture(scope="module")
def fuzzed(stack: EmbeddedStack, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    """Send all records, and some more that close what is left; the driver that processed them was stopped in order."""
    folder = tmp_path_factory.mktemp("fuzzed")
    with postgres(tmp_path_factory.mktemp("postgres")) as server:
        changes = {"job": "tests.spark.fuzzed_job", "database": server.url, "epoch_rows_max": 10_000}
        made = Fuzzed(toolchain, stack.endpoints, folder, "fuzzed", changes)
        made.database = server
        made.create_topics()
        try:
            made.send_all(many(drawn(1), NEAR, far=False) + many(drawn(2), FAR, far=True))
            driver = made.start()
            made.wait_all(driver)
            made.send_all([CLOSER])
            made.wait_all(driver)
            made.send_all(many(drawn(3), PARTITIONS, far=False))
            made.wait_all(driver)
            driver.stop(STOPPED_S)
            assert driver.status() == 0, driver.post_mortem()
            yield made
        finally:
            made.end()


def _by_coordinate(rows: list[Row]) -> dict[Coordinate, Row]:
    found = {(row["partition"], row["offset"]): row for row in rows}
    assert len(found) == len(rows), "a record is there twice"
    return found


def test_every_record_is_accepted_a_copy_late_or_refused_with_a_reason(fuzzed: Fuzzed) -> None:
    counts = [record.counts for record in fuzzed.epochs()]
    read, accepted, copies, late, malformed = (
        sum(getattr(one, name) for one in counts) for name in ("read", "accepted", "duplicate", "late", "malformed")
    )
    assert read == accepted + copies + late + malformed == len(fuzzed.sent) == NEAR + FAR + 1 + PARTITIONS
    assert min(accepted, copies, late, malformed) > 0
    letters = [letter for letter in fuzzed.letters() if letter["reason"] != SUM_TOO_LARGE]
    reasons = {(letter["source"][1], letter["source"][2]): letter["reason"] for letter in letters}
    assert len(reasons) == len(letters) == late + malformed, "a record was refused twice"
    assert all(reasons.values()), "a refusal has no reason"
    assert Counter(reasons.values())["late"] == late
    told = _by_coordinate(fuzzed.read_rows("told"))
    assert len(told) == accepted
    assert not told.keys() & reasons.keys()
    assert told.keys() | reasons.keys() <= fuzzed.sent.keys()
    ordinary = {at for at, record in fuzzed.sent.items() if record.ordinary}
    assert {reasons[at] for at in ordinary & reasons.keys()} <= {"late"}
    note(fuzzed.name, Counter(read=read, accepted=accepted, duplicate=copies) + Counter(reasons.values()))


def test_topic_table_and_files_hold_the_same_rows_which_are_those_that_were_sent(fuzzed: Fuzzed) -> None:
    told = fuzzed.read_rows("told")
    for row in told:
        record = fuzzed.sent[row["partition"], row["offset"]]
        expected = row_of(pipeline, record.value, None)
        assert expected.pop("reason") is None, f"accepted, though no strict reader takes it: {record.value!r}"
        assert {name: row[name] for name in expected} == expected
    assert ordered(fuzzed.archived("archive")) == ordered(told)
    # An id that comes again after its window was closed is new to dedup, and replaces the row of its key.
    newest: dict[tuple[str, str], list[Row]] = {}
    for row in told:
        newest.setdefault((row["id"], row["user"]), []).append(row)
    kept = fuzzed.kept("kept")
    assert len(kept) == len(newest)
    assert all(row in newest[row["id"], row["user"]] for row in kept)
    raw = Counter((key, value) for _, key, value in fuzzed.raw(f"{fuzzed.name}.raw"))
    assert raw == Counter((row["id"].encode(), row["raw"] or b"") for row in told)


def _closed(fuzzed: Fuzzed, told: list[Row]) -> Mapping[tuple[str, int], list[Row]]:
    """Return accepted rows of the windows that the last epoch's watermark has closed."""
    watermark_ms = fuzzed.epochs()[-1].watermark_ms
    assert watermark_ms is not None
    found: dict[tuple[str, int], list[Row]] = {}
    for row in told:
        start = row["event_time_ms"] - row["event_time_ms"] % pipeline.window_ms
        if start + pipeline.window_ms + pipeline.lateness_ms <= watermark_ms:
            found.setdefault((row["user"], start), []).append(row)
    return found


def test_all_sinks_of_windows_hold_the_results_of_accepted_rows_and_too_large_sums_are_dead_letters(
    fuzzed: Fuzzed,
) -> None:
    each = pipeline.windows[0]
    exact = {
        at: {name: result(value, rows, pipeline.row_schema)[0] for name, value in each.values.items()}
        for at, rows in _closed(fuzzed, fuzzed.read_rows("told")).items()
    }
    fit = {at: values for at, values in exact.items() if None not in values.values()}
    due = [{"user": user, "window_start_ms": start, **values} for (user, start), values in fit.items()]
    assert due
    assert ordered(fuzzed.read_rows("told_sums")) == ordered(due)
    assert ordered(fuzzed.kept("kept_sums")) == ordered(due)
    assert ordered(fuzzed.archived("archive_sums")) == ordered(due)
    wide = [letter for letter in fuzzed.letters() if letter["reason"] == SUM_TOO_LARGE]
    assert len(wide) == len(pipeline.windows) * (len(exact) - len(fit))
