"""A chain with a gap, an overlap or numbers its pinned input does not give is a failure; so is what is left open."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import FAIL, UNKNOWN, expect_run
from tests.unit.harness.tamper import document, history, lines_of, manifest, observed, sent


def _range(epoch: int, partition: str, side: int, by: int) -> Callable[[Any], None]:
    def change(chain: Any) -> None:
        chain["epochs"][epoch]["ranges"]["events"][partition][side] += by

    return change


def _set(epoch: int, *path: str, to: Any) -> Callable[[Any], None]:
    def change(chain: Any) -> None:
        place = chain["epochs"][epoch]
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = to(place[path[-1]]) if callable(to) else to

    return change


def _first_digest(chain: Any) -> None:
    shard = next(iter(chain["epochs"][2]["deltas"]["ids"].values()))
    shard["digest"] = shard["digest"][:-1] + f"{int(shard['digest'][-1], 16) ^ 1:x}"


def _bad_digest(chain: Any) -> None:
    next(iter(chain["epochs"][2]["deltas"]["ids"].values()))["digest"] = "f" * 33


def _one_row_more(chain: Any) -> None:
    next(iter(chain["epochs"][2]["sinks"]["accepted"].values()))["rows"] += 1


def _forget_head(chain: Any) -> None:
    chain["head"]["last_recorded"] = 3


CHAIN = [
    ("gap", _range(4, "1", 0, 1), "epoch 4: gap in events/1"),
    ("overlap", _range(4, "1", 0, -1), "epoch 4: overlap in events/1"),
    ("short end", _range(-1, "2", 1, -1), "but the chain ends at"),
    ("backwards", _range(0, "0", 1, -1000), "before its start"),
    ("missing epoch", lambda chain: chain["epochs"].pop(5), "epoch 6 stands where epoch 5 is due"),
    ("last epoch cut off", lambda chain: chain["epochs"].pop(), "but the records end at"),
    ("generation falls", _set(8, "generation", to=0), "generation 0 after"),
    ("watermark high", _set(5, "watermark_ms", to=lambda ms: ms + 1), "epoch 5: watermark_ms"),
    ("watermark forgotten", _set(5, "watermark_ms", to=None), "epoch 5: watermark_ms"),
    ("watermark too early", _set(0, "watermark_ms", to=1), "epoch 0: watermark_ms"),
    ("newest time", _set(5, "max_event_time_ms", to=lambda ms: ms + 1), "epoch 5: max_event_time_ms"),
    ("count in", _set(5, "counts", "in", to=lambda n: n + 1), "epoch 5: counts.in"),
    ("count accepted", _set(5, "counts", "accepted", to=lambda n: n + 1), "epoch 5: counts.accepted"),
    ("count duplicate", _set(5, "counts", "duplicate", to=0), "epoch 5: counts.duplicate"),
    ("count late", _set(5, "counts", "late", to=0), "epoch 5: counts.late"),
    *(
        (f"count {name} one off", _set(5, "counts", name, to=lambda n: n + 1), "epoch 5: in is")
        for name in ("in", "accepted", "duplicate", "late", "malformed")
    ),
    ("count malformed", _set(5, "counts", "malformed", to=0), "epoch 5: counts.malformed"),
    ("topic recreated", _set(5, "topic_ids", "events", to="topic-2"), "epoch 5: topic events has id topic-2"),
    ("settings changed", _set(5, "settings_digest", to="t"), "epoch 5: settings digest t"),
    ("delta digest", _first_digest, "epoch 2: ids delta"),
    ("delta digest too long", _bad_digest, "epoch 2: ids delta"),
    ("delta gone", _set(2, "deltas", to={}), "epoch 2: ids delta holds 0 ids"),
    ("sink rows", _one_row_more, "epoch 2: sink accepted says"),
    ("head behind", _forget_head, "head: last recorded 3"),
]


@pytest.mark.parametrize(("change", "names"), [case[1:] for case in CHAIN], ids=[case[0] for case in CHAIN])
@pytest.mark.thinned(3)
def test_tampered_chain_fails(run: Path, change: Callable[[Any], None], names: str) -> None:
    document("chain", change)(run)
    expect_run(run, FAIL, "chain", names)


def test_accepted_record_of_another_epoch_fails_the_chain(run: Path) -> None:
    row = lines_of(run / "observed" / "accepted.jsonl")[3]
    observed("accepted", lambda rows: rows[3].update(epoch=row["epoch"] + 1))(run)
    expect_run(run, FAIL, "chain", f"id {row['id']} was published in epoch")


def _part(quiet: Any) -> Row:
    part: Row = quiet["partitions"][1]
    return part


QUIET: list[tuple[Callable[[Any], object], Verdict, str]] = [
    (lambda it: it["open_transactions"].append("user_counts.accepted.0"), FAIL, "user_counts.accepted.0"),
    (
        lambda it: _part(it).update(last_stable_offset=_part(it)["last_stable_offset"] - 1),
        FAIL,
        "accepted/1: last stable offset",
    ),
    # Ends that are not those of all that was read.
    (lambda it: _part(it).update(read_to=3), UNKNOWN, "accepted/1 was read to @3, stable is it to @"),
    (lambda it: _part(it).pop("read_to"), UNKNOWN, "accepted/1 was read to no known end"),
    (lambda it: it.update(at=it["at"] - 200_000), UNKNOWN, "s before the last word of the last driver"),
    (lambda it: it.pop("at"), UNKNOWN, "when the ends were asked for is not known"),
]


@pytest.mark.parametrize(("change", "verdict", "says"), QUIET)
def test_what_is_open_is_not_quiet_and_ends_of_something_else_are_unknown(
    run: Path, change: Callable[[Any], object], verdict: Verdict, says: str
) -> None:
    document("quiet", change)(run)
    expect_run(run, verdict, "quiet", says)


@pytest.mark.parametrize("sink", ["accepted", "user_counts", "global_counts"])
def test_row_after_the_boundary_fails_the_epilogue(run: Path, sink: str) -> None:
    observed(sink, lambda rows: rows.append({**rows[5], "offset": 100_000, "epoch": 100}))(run)
    expect_run(run, FAIL, "epilogue", f"{sink}: a row after the boundary")


@pytest.mark.parametrize("times", [0, 2])
def test_resent_late_record_is_routed_exactly_once(run: Path, times: int) -> None:
    observed("dead_letter", lambda rows: rows.extend([rows.pop()] * times))(run)
    expect_run(run, FAIL, "epilogue")


def test_fresh_record_that_the_reference_calls_late_fails_the_aggregates(run: Path) -> None:
    """The generator's word and the reference must agree: here the settings make records in time late."""
    manifest(lambda told: told["settings"].update(lateness_ms=0, window_ms=1000))(run)
    expect_run(run, FAIL, "aggregates", "is late by the reference")


def test_record_planned_late_and_accepted_fails_the_aggregates(run: Path) -> None:
    sent(lambda rows: next(row for row in rows if row["kind"] == "fresh").update(kind="late"))(run)
    evidence = expect_run(run, FAIL, "aggregates").oracle("aggregates").evidence
    assert any("late id" in line and "is accepted" in line for line in evidence)


@pytest.mark.parametrize(("count", "verdict"), [(0, None), (1, Verdict.PASS), (2, Verdict.FAIL)])
def test_a_pipeline_whose_drivers_are_all_refused_fails(run: Path, count: int, verdict: Verdict | None) -> None:
    """One may be a driver that had lost its race; of one that was struck tells `test_endings`."""
    ends = [(number + 1, "SinkError: a repeat of epoch 2 decided otherwise") for number in range(count)]

    def end(rows: list[Row]) -> None:
        at = rows[-1]["t"]
        rows[-1:-1] = [{"t": at, "event": "driver", "state": "ended", "pid": p, "says": s} for p, s in ends]

    history(end)(run)
    found = [one for one in judge(run, write=False).oracles if one.name == "goes on"]
    assert [one.verdict for one in found] == ([] if verdict is None else [verdict])


def _twice_declared(rows: list[Row]) -> tuple[Row, Row, Row]:
    """Both declarations of an epoch that a second driver took over, and its publication."""
    told = [row for row in rows if row["event"] == "epoch"]
    drivers: dict[int, list[Row]] = {}
    for row in told:
        if row["state"] == "declared":
            drivers.setdefault(row["epoch"], []).append(row)
    first, second = next(both for both in drivers.values() if len({row["driver"] for row in both}) == 2)
    published = next(row for row in told if row["state"] == "published" and row["epoch"] == first["epoch"])
    return first, second, published


def _repeat_denied(rows: list[Row]) -> None:
    _twice_declared(rows)[2]["repeat"] = False


def _end_by_the_older_one_too(rows: list[Row]) -> None:
    first, second, published = _twice_declared(rows)
    older = {name: first[name] for name in ("driver", "generation")}
    rows.insert(rows.index(second) + 1, {**published, **older, "t": second["t"], "repeat": False})


def test_an_epoch_that_was_declared_again_is_published_as_a_repeat(run: Path) -> None:
    history(_repeat_denied)(run)
    expect_run(run, FAIL, "chain", "declared again, and published as if it were not")


def test_a_driver_that_stood_still_may_end_for_the_first_time_what_a_newer_one_declared_again(run: Path) -> None:
    history(_end_by_the_older_one_too)(run)
    results = judge(run, write=False)
    assert {results.oracle(name).verdict for name in ("chain", "epochs")} == {Verdict.PASS}, results.reasons


def _give_up(run: Path, *, record: bool) -> int:
    """Tell of a run whose topic lost the first records of partition 1 that epoch 4 read; return how many those were.

    They are no record's copy and nobody's original, and their windows are still open: nothing else depends on them.
    """
    chain = json.loads((run / "observed" / "chain.json").read_text())
    start, end = chain["epochs"][4]["ranges"]["events"]["1"]
    gone = len([row for row in lines_of(run / "sent.jsonl") if row["partition"] == 1 and start <= row["offset"] < end])

    def change(chain: Any) -> None:
        chain["epochs"][4]["ranges"]["events"]["1"][0] = end
        if record:
            chain["epochs"][4]["lost"] = {"offsets": {"events": {"1": [start, end]}}, "at_ms": 1}

    document("chain", change)(run)
    return gone


def test_a_gap_without_a_record_is_a_break_and_with_one_a_loss_that_is_told_and_never_coverage(run: Path) -> None:
    """What was published of these records all the same is then wrong: the chain says that nobody read them."""
    copy = Path(shutil.copytree(run, run.parent / "unrecorded"))
    gone = _give_up(copy, record=False)
    found = judge(copy, write=False)
    assert any("gap in events/1" in line for line in found.oracle("chain").evidence)
    assert "no epoch read" in found.oracle("coverage").evidence[0]
    assert _give_up(run, record=True) == gone
    found = judge(run, write=False)
    assert not any("gap in" in line for line in found.oracle("chain").evidence)
    coverage = found.oracle("coverage")
    told = f"{gone} acknowledged records were lost, which epoch 4 accepted"
    assert coverage.verdict is Verdict.PASS
    assert f"no exact coverage: {gone} offsets with {told}" in coverage.says
    assert found.claim.endswith(f" But not of every record: {gone} offsets with {told}.")


@pytest.mark.parametrize(("side", "by"), [(0, 1), (0, -1), (1, 1), (1, -1)])
def test_a_recorded_loss_that_is_not_the_gap_excuses_nothing(run: Path, side: int, by: int) -> None:
    _give_up(run, record=True)
    document("chain", lambda chain: _move(chain["epochs"][4]["lost"]["offsets"]["events"]["1"], side, by))(run)
    evidence = expect_run(run, FAIL, "chain").oracle("chain").evidence
    assert any("gives up" in line or "gap in" in line or "overlap in" in line for line in evidence)


def _move(span: list[int], side: int, by: int) -> None:
    span[side] += by
