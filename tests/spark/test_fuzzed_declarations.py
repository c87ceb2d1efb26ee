"""Declarations of any kind on the real stack, records up to nine megabytes: no driver stops, no two sinks differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewTopic

from effectively_once import Pipeline, ToFiles, ToTable
from effectively_once.epoch.rows import STATEFUL_TIMES_MS
from effectively_once.sources.times import BOUNDS
from effectively_once.state.accumulator import IMPOSSIBLE
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.database import postgres
from tests.fuzz.chosen import RECORDS, SEED, drawn, note
from tests.fuzz.closed import compute_due, count_by_window, differences
from tests.fuzz.drawn import NUMBER, name_of
from tests.fuzz.large import large
from tests.fuzz.records import CLOSER, closer, many
from tests.fuzz.rows import Row, row_of
from tests.harness.adapters.topics import LARGE
from tests.spark.drawn_job import HOUR_MS
from tests.spark.fuzzed import Fuzzed
from tests.spark.pipeline import ADMIN_S, PARTITIONS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3_600)]

EACH = max(RECORDS // 20, 400)
"""Records of a declaration."""
FAR = EACH // 20
STOPPED_S = 60.0


class Drawn(Fuzzed):
    """A pipeline that is drawn, whose input takes records of any size that Kafka can have."""

    def create_topics(self) -> None:
        source = NewTopic(self.topic, PARTITIONS, 1, config={**BOUNDS, **LARGE})
        self.admin.create_topics([source])[self.topic].result(ADMIN_S)
        super().create_topics()

    def all_rows(self, sink: str) -> list[Row]:
        """Every row of a sink, whatever it is."""
        to, _ = self.declared.sinks[sink]
        if isinstance(to, ToFiles):
            return self.archived(sink)
        return self.kept(sink) if isinstance(to, ToTable) else self.read_rows(sink)


@pytest.fixture(scope="module", params=range(NUMBER))
def fuzzed(
    stack: EmbeddedStack,
    toolchain: Toolchain,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Drawn]:
    """Send all records, and some more that close what is left; the driver that processed them was stopped in order."""
    number = int(request.param)
    name = f"drawn{number}"
    with postgres(tmp_path_factory.mktemp("postgres")) as server:
        job = f"tests.spark.drawn_job:{name_of(SEED, number)}"
        changes = {"job": job, "database": server.url, "epoch_rows_max": 10_000}
        made = Drawn(toolchain, stack.endpoints, tmp_path_factory.mktemp(name), name, changes)
        made.database = server
        made.create_topics()
        seed = drawn(1_000 * (number + 1))
        try:
            made.send_all(many(seed + 1, EACH - FAR, far=False) + large(seed) + many(seed + 2, FAR, far=True))
            driver = made.start()
            made.wait_all(driver)
            made.send_all([closer(STATEFUL_TIMES_MS[1]) if made.declared.stateful else CLOSER])
            made.wait_all(driver)
            made.send_all(many(seed + 3, PARTITIONS, far=False))
            made.wait_all(driver)
            driver.stop(STOPPED_S)
            assert driver.status() == 0, driver.post_mortem()
            yield made
        finally:
            made.end()


def _accepted(fuzzed: Drawn) -> list[Row]:
    """Rows of the first sink that has all of them."""
    return fuzzed.all_rows(next(one.name for one in fuzzed.declared.rows if one.name in ("told", "archive")))


def test_every_record_is_accepted_a_copy_late_or_refused_with_a_reason(fuzzed: Drawn) -> None:
    counts = [record.counts for record in fuzzed.epochs()]
    names = ("read", "accepted", "duplicate", "late", "malformed")
    read, accepted, copies, late, malformed = (sum(getattr(one, name) for one in counts) for name in names)
    assert read == accepted + copies + late + malformed == len(fuzzed.sent)
    assert min(accepted, malformed) > 0
    assert (copies > 0) == (fuzzed.declared.ids == "attached")
    letters = [letter for letter in fuzzed.letters() if letter["reason"] not in IMPOSSIBLE]
    reasons = {(letter["source"][1], letter["source"][2]): letter["reason"] for letter in letters}
    assert len(reasons) == len(letters) == late + malformed, "a record was refused twice"
    assert all(reasons.values()), "a refusal has no reason"
    assert Counter(reasons.values())["late"] == late
    rows = _accepted(fuzzed)
    at = {(row["partition"], row["offset"]) for row in rows}
    assert len(at) == len(rows) == accepted
    assert not at & reasons.keys()
    assert at | reasons.keys() <= fuzzed.sent.keys()
    note(fuzzed.name, Counter(read=read, accepted=accepted, duplicate=copies) + Counter(reasons.values()))


def test_every_sink_of_rows_has_those_that_were_sent(fuzzed: Drawn) -> None:
    pipeline, rows = fuzzed.declared, _accepted(fuzzed)
    for row in rows:
        expected = row_of(pipeline, fuzzed.sent[row["partition"], row["offset"]].value, None)
        assert expected.pop("reason") is None, f"accepted, though no strict reader takes it: {row['partition']}"
        assert not differences([{name: row[name] for name in expected}], [expected])
    for sink in pipeline.rows:
        if sink.name == "raw":
            raw = Counter((key, value) for _, key, value in fuzzed.raw(f"{fuzzed.name}.raw"))
            due = ((_encoded(row["user"]), row["raw"] or b"") for row in rows)
            assert raw == Counter(due)
        elif isinstance(sink, ToTable) and sink.key:
            _assert_newest(fuzzed.kept(sink.name), rows, sink.key)
        else:
            assert not differences(fuzzed.all_rows(sink.name), rows), sink.name


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _assert_newest(kept: list[Row], rows: list[Row], key: tuple[str, ...]) -> None:
    """An id that comes again after its window was closed is new to dedup, and replaces the row of its key."""
    of_key: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        of_key.setdefault(tuple(row[name] for name in key), []).append(row)
    assert len(kept) == len(of_key)
    assert all(row in of_key[tuple(row[name] for name in key)] for row in kept)


def test_every_sink_of_windows_has_the_results_of_accepted_rows(fuzzed: Drawn) -> None:
    pipeline: Pipeline = fuzzed.declared
    rows, watermark_ms, impossible = _accepted(fuzzed), fuzzed.epochs()[-1].watermark_ms, 0
    for each in pipeline.windows:
        due, wide = compute_due(pipeline, each, rows, watermark_ms)
        assert due or wide, "nothing was closed"
        impossible += wide
        assert not differences(fuzzed.all_rows(each.name), due), each.name
    assert sum(letter["reason"] in IMPOSSIBLE for letter in fuzzed.letters()) == impossible


def test_what_spark_counts_is_what_the_accepted_rows_come_to(fuzzed: Drawn) -> None:
    """Of the declaration that has state of Spark's own: a window may stay open longer there, and comes once."""
    if (stateful := fuzzed.declared.stateful) is None:
        return
    found, epochs = fuzzed.all_rows(stateful.to.name), fuzzed.epochs()
    due = count_by_window(_accepted(fuzzed), HOUR_MS)
    shown = {(row["user"], row["window_start_ms"]): row for row in found}
    assert len(shown) == len(found)
    assert not differences(found, [due[at] for at in shown if at in due])
    # Spark closes with its batch what the watermark of the one before allows, a window later than the chain would.
    last_ms = epochs[-1].watermark_ms
    assert last_ms is not None
    reached = last_ms - fuzzed.declared.lateness_ms - fuzzed.declared.window_ms
    assert {at for at in due if at[1] + HOUR_MS <= reached} <= shown.keys()
