"""A chain with a gap, an overlap or numbers its pinned input does not give is a failure; so is what is left open."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.judge.verdict import judge
from tests.harness.results import Oracle, Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.tamper import change_json, change_lines, lines_of


def failing(run: Path, name: str) -> Oracle:
    results = judge(run, write=False)
    assert results.verdict is Verdict.FAIL, results.reasons
    oracle = results.oracle(name)
    assert oracle.verdict is Verdict.FAIL, results.reasons
    return oracle


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
def test_tampered_chain_fails(run: Path, change: Callable[[Any], None], names: str) -> None:
    change_json(run / "observed" / "chain.json", change)
    oracle = failing(run, "chain")
    assert any(names in line for line in oracle.evidence), oracle.evidence


def test_accepted_record_of_another_epoch_fails_the_chain(run: Path) -> None:
    path = run / "observed" / "accepted.jsonl"
    row = lines_of(path)[3]
    change_lines(path, lambda rows: rows[3].__setitem__("epoch", row["epoch"] + 1))
    assert f"id {row['id']} was published in epoch" in failing(run, "chain").evidence[0]


def test_open_transaction_is_not_quiet(run: Path) -> None:
    change_json(
        run / "observed" / "quiet.json", lambda quiet: quiet["open_transactions"].append("user_counts.accepted.0")
    )
    assert "user_counts.accepted.0" in failing(run, "quiet").evidence[0]


def test_stable_offset_behind_is_not_quiet(run: Path) -> None:
    def change(quiet: Any) -> None:
        quiet["partitions"][1]["last_stable_offset"] -= 1

    change_json(run / "observed" / "quiet.json", change)
    assert "accepted/1: last stable offset" in failing(run, "quiet").evidence[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda quiet: quiet["partitions"][1].update(read_to=3), "accepted/1 was read to @3, stable is it to @"),
        (lambda quiet: quiet["partitions"][1].pop("read_to"), "accepted/1 was read to no known end"),
        (lambda quiet: quiet.update(at=quiet["at"] - 200_000), "s before the last word of the last driver"),
        (lambda quiet: quiet.pop("at"), "when the ends were asked for is not known"),
    ],
)
def test_ends_that_are_not_those_of_all_that_was_read_are_unknown(
    run: Path, change: Callable[[Any], object], said: str
) -> None:
    change_json(run / "observed" / "quiet.json", change)
    oracle = judge(run, write=False).oracle("quiet")
    assert oracle.verdict is Verdict.UNKNOWN
    assert said in oracle.says


@pytest.mark.parametrize("sink", ["accepted", "user_counts", "global_counts"])
def test_row_after_the_boundary_fails_the_epilogue(run: Path, sink: str) -> None:
    path = run / "observed" / f"{sink}.jsonl"
    row = {**lines_of(path)[5], "offset": 100_000, "epoch": 100}
    change_lines(path, lambda rows: rows.append(row))
    assert f"{sink}: a row after the boundary" in failing(run, "epilogue").evidence[0]


@pytest.mark.parametrize("times", [0, 2])
def test_resent_late_record_is_routed_exactly_once(run: Path, times: int) -> None:
    path = run / "observed" / "dead_letter.jsonl"

    def change(rows: list[Row]) -> None:
        rows.extend([rows.pop()] * times)

    change_lines(path, change)
    failing(run, "epilogue")


def test_fresh_record_that_the_reference_calls_late_fails_the_aggregates(run: Path) -> None:
    """The generator's word and the reference must agree: here the settings make records in time late."""
    change_json(run / "manifest.json", lambda manifest: manifest["settings"].update(lateness_ms=0, window_ms=1000))
    assert any("is late by the reference" in line for line in failing(run, "aggregates").evidence)


def test_record_planned_late_and_accepted_fails_the_aggregates(run: Path) -> None:
    def change(rows: list[Row]) -> None:
        next(row for row in rows if row["kind"] == "fresh")["kind"] = "late"

    change_lines(run / "sent.jsonl", change)
    assert any("late id" in line and "is accepted" in line for line in failing(run, "aggregates").evidence)


@pytest.mark.parametrize(("count", "verdict"), [(0, None), (1, Verdict.PASS), (2, Verdict.FAIL)])
def test_a_pipeline_whose_drivers_are_all_refused_fails(run: Path, count: int, verdict: Verdict | None) -> None:
    """One may be a driver that had lost its race; of one that was struck tells `test_endings`."""
    ends = [(number + 1, "SinkError: a repeat of epoch 2 decided otherwise") for number in range(count)]

    def end(rows: list[Row]) -> None:
        at = rows[-1]["t"]
        rows[-1:-1] = [{"t": at, "event": "driver", "state": "ended", "pid": p, "says": s} for p, s in ends]

    change_lines(run / "history.jsonl", end)
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


def _ended_by_the_older_one_too(rows: list[Row]) -> None:
    first, second, published = _twice_declared(rows)
    older = {name: first[name] for name in ("driver", "generation")}
    rows.insert(rows.index(second) + 1, {**published, **older, "t": second["t"], "repeat": False})


def test_an_epoch_that_was_declared_again_is_published_as_a_repeat(run: Path) -> None:
    change_lines(run / "history.jsonl", _repeat_denied)
    assert "declared again, and published as if it were not" in failing(run, "chain").evidence[0]


def test_a_driver_that_stood_still_may_end_for_the_first_time_what_a_newer_one_declared_again(run: Path) -> None:
    change_lines(run / "history.jsonl", _ended_by_the_older_one_too)
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

    change_json(run / "observed" / "chain.json", change)
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
    path = run / "observed" / "chain.json"
    change_json(path, lambda chain: _move(chain["epochs"][4]["lost"]["offsets"]["events"]["1"], side, by))
    oracle = failing(run, "chain")
    assert any("gives up" in line or "gap in" in line or "overlap in" in line for line in oracle.evidence)


def _move(span: list[int], side: int, by: int) -> None:
    span[side] += by
