"""What a reconciliation is judged by: each promise, broken, comes out as fail; what shows nothing, as unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from effectively_once_jobs.reconcile.difference import Cell
from tests.experiments import fabricate
from tests.experiments.reconcile.experiment import EXPERIMENT
from tests.experiments.reconcile.fabricate import BESIDE, OWN, PLAN, Made, play, write_run
from tests.experiments.reconcile.plan import ALONE, AT_LEAST_ONCE, EXACTLY_ONCE
from tests.harness.results import Verdict

Change = Callable[[Made], object]
judge = partial(fabricate.judge, EXPERIMENT)


def fabricate_changed(tmp_path: Path, change: Change) -> Path:
    what = play()
    change(what)
    return write_run(tmp_path / "run", what)


def somewhere(what: Made, of: Callable[[Cell], bool], **changes: Any) -> None:
    """Change the first cell that is such a one; a number is added."""
    at, cell = next((at, cell) for at, cell in what.cells.items() if of(cell))
    what.cells[at] = replace(cell, **{name: getattr(cell, name) + by for name, by in changes.items()})


def say(what: Made, topic: str, by: int, of: Callable[[Cell], bool] = lambda _: True, skip: int = 0) -> None:
    """Have a stream say more or less of a cell."""
    at, cell = [(at, cell) for at, cell in what.cells.items() if of(cell)][skip]
    what.cells[at] = replace(cell, streams={**cell.streams, topic: cell.streams[topic] + by})


def one_for_another(what: Made) -> None:
    for skip, by in enumerate((1, -1)):
        say(what, OWN, by, lambda cell: cell.timely > 1, skip)


def one_more(row: dict[str, Any], name: str) -> None:
    row[name] += 1


def test_a_play_without_surprises_passes_and_its_figures_are_what_happened(tmp_path: Path) -> None:
    results = EXPERIMENT.judge(write_run(tmp_path / "run", play()))
    assert results.verdict is Verdict.PASS, fabricate.failing(results)
    (found,) = results.arms
    exactly, plain = found.streams[EXACTLY_ONCE], found.streams[AT_LEAST_ONCE]
    # 1 % with ids of their own, and two at the bound.
    assert (exactly.whole.late, exactly.whole.difference, exactly.whole.wrong) == (12, -12, 0)
    assert (plain.whole.difference, plain.whole.copies, plain.added_again, plain.whole.under) == (91, 51, 40, 0)
    assert any(one.difference == 0 for one in exactly.windows), "windows without late records are equal"
    assert [one.difference + one.late for one in exactly.windows] == [0] * len(exactly.windows)
    assert [(one.distance_ms, one.became) for one in found.attempts] == [
        (-1, "accepted"),
        (0, "late"),
        (1, "late"),
    ]
    assert found.records["in"] == found.acknowledged == 1_000 + 6 + 2


DIFFERS = "exactly_once differs by what it refused as late and by nothing else, in every key and window"
COUNTS = "batch counts what the broker acknowledged, each id once, in every key and window"
ACCOUNTS = "exactly_once accounts for every record: in = on time + late + duplicate + malformed"
LATES = "exactly_once refuses as late what was sent too late, and nothing else"
BOUND = "exactly_once takes a record until the watermark is at window end + allowed lateness, and none then"


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda what: say(what, OWN, 1), {DIFFERS}),
        (lambda what: say(what, OWN, -1), {DIFFERS}),
        # Equal in sum, and in the sum of a window: only key by key it is seen.
        (one_for_another, {DIFFERS}),
        # A record in time that was lost, and called late.
        (lambda what: somewhere(what, lambda cell: cell.timely > 1, timely=-1), {COUNTS, DIFFERS}),
        (lambda what: say(what, BESIDE, -60), {"at_least_once counts nothing too few"}),
        (
            lambda what: somewhere(what, lambda cell: cell.late > 0, late=1),
            {COUNTS, "at_least_once counts nothing too few"},
        ),
        (lambda what: one_more(what.epochs[0], "in"), {ACCOUNTS}),
        (lambda what: one_more(what.epochs[1], "late"), {ACCOUNTS}),
        (lambda what: what.dead.pop(), {ACCOUNTS}),
        (lambda what: what.dead.pop(0), {ACCOUNTS, LATES}),
        (lambda what: at_bound(what, "late", "malformed"), {ACCOUNTS, LATES, BOUND}),
    ],
)
def test_a_broken_promise_fails(tmp_path: Path, change: Change, broken: set[str]) -> None:
    failing, verdict = judge(fabricate_changed(tmp_path, change))
    assert {says for says, promise in failing if promise} == broken
    assert verdict is Verdict.FAIL


def at_bound(what: Made, was: str, becomes: str) -> None:
    """The record that is read when the watermark is at the bound is refused for another reason."""
    place = next(
        [row["topic"], row["partition"], row["offset"]]
        for row in what.sends
        if row["user"] == ALONE and row["id"] == "bound+0"
    )
    (row,) = (row for row in what.dead if row["source"] == place and row["reason"] == was)
    row["reason"] = becomes


@pytest.mark.parametrize(
    ("change", "unshown"),
    [
        (lambda what: what.hits.update(exactly_once=PLAN.kills - 1), ["exactly_once every kill hit a running epoch"]),
        (lambda what: what.hits.update(at_least_once=0), ["at_least_once every kill hit a running epoch"]),
        (lambda what: what.repeats.update(exactly_once=0), ["exactly_once an epoch was repeated"]),
        (lambda what: what.again(0), ["at_least_once a repeat counted records again"]),
    ],
)
def test_what_was_not_seen_shows_nothing(tmp_path: Path, change: Change, unshown: list[str]) -> None:
    assert judge(fabricate_changed(tmp_path, change)) == ([(says, False) for says in unshown], Verdict.UNKNOWN)


@pytest.mark.parametrize(
    "file",
    [
        "sent.jsonl",
        "batch/cells.jsonl",
        "batch/report.json",
        "exactly_once/history.jsonl",
        "at_least_once/history.jsonl",
        "exactly_once/observed/dead_letter.jsonl",
    ],
)
def test_without_evidence_it_is_unknown(tmp_path: Path, file: str) -> None:
    path = write_run(tmp_path / "run", play())
    content = (path / file).read_bytes()
    (path / file).write_bytes(content[: len(content) * 3 // 4])
    cut = EXPERIMENT.judge(path)
    (path / file).unlink()
    for results in (cut, EXPERIMENT.judge(path)):
        assert results.verdict is Verdict.UNKNOWN
        assert results.unread
