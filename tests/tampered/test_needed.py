"""An alteration of a history's line is harmless only where no fault needs the line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tampered.alterations import Alteration
from tests.tampered.harmless import HARMLESS
from tests.tampered.places import Evidence, Place

WHO, NEXT, OTHER = "7@1.00", "8@6.00", "9@1.00"


def _step(t: int, epoch: int, pid: int, **more: Any) -> dict[str, Any]:
    told = {"epoch": epoch, "shard": 0, "sink": "accepted", "step": "committed", "pid": pid, "attempt": 0}
    return {"t": t, "event": "step", **told, **more}


def _epoch(t: int, epoch: int, state: str, **more: Any) -> dict[str, Any]:
    return {"t": t, "event": "epoch", "state": state, "epoch": epoch, "driver": 1, **more}


def _process(t: int, who: str, state: str, **more: Any) -> dict[str, Any]:
    return {"t": t, "event": "process", "state": state, "process": who, "role": "executor", **more}


FAULT = {
    "t": 9_000,
    "event": "fault",
    "kind": "sigkill",
    "target": "executor",
    "epoch": 1,
    "phase": "committed:accepted",
    "process_before": WHO,
    "process_after": NEXT,
    "injected_at": 5_500,
    "hit": True,
}
ROWS = [
    _process(1_000, WHO, "seen"),
    _process(1_000, OTHER, "seen"),
    _epoch(1_500, 0, "declared"),
    _step(2_000, 0, 9),
    _epoch(3_000, 0, "published", repeat=False),
    _epoch(4_000, 1, "declared"),
    _step(5_000, 1, 7),
    _process(6_000, WHO, "gone", last=5_400, code=-9),
    _process(6_100, NEXT, "seen"),
    _step(7_000, 1, 8, attempt=1),
    _epoch(8_000, 1, "published", repeat=False),
    FAULT,
    _epoch(9_500, 2, "declared"),
    _epoch(10_000, 2, "published", repeat=False),
    _step(11_000, 2, 9),
    _process(12_000, OTHER, "gone", last=11_900, code=0),
]


def evidence_of(rows: list[dict[str, Any]], name: str = "history.jsonl") -> Evidence:
    return Evidence(name, b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def is_harmless(evidence: Evidence, at: int, operation: str, *steps: str) -> bool:
    field = ".".join((evidence.kind(at), *steps))
    alteration = Alteration(5, "made-up", evidence.name, field, operation, Place(at, steps), bound=True, seed=1)
    return any(one.covers(alteration, evidence) for one in HARMLESS)


EVIDENCE = evidence_of(ROWS)


@pytest.mark.parametrize(
    ("at", "operation", "steps"),
    [
        (1, "dropped", ()),
        (14, "dropped", ()),
        (14, "one more", ("pid",)),
        (15, "another type", ("code",)),
        (8, "dropped", ()),
        (7, "null", ("code",)),
        (7, "one more", ("t",)),
        (8, "text longer", ("process",)),
        (10, "flipped", ("repeat",)),
    ],
)
def test_what_no_fault_needs_may_be_altered(at: int, operation: str, steps: tuple[str, ...]) -> None:
    assert is_harmless(EVIDENCE, at, operation, *steps)


@pytest.mark.parametrize(
    ("at", "operation", "steps"),
    [
        (6, "dropped", ()),
        (6, "text longer", ("step",)),
        (9, "dropped", ()),
        (9, "zero", ("attempt",)),
        (7, "dropped", ()),
        (7, "one more", ("code",)),
        (7, "text longer", ("role",)),
        (7, "zero", ("t",)),
    ],
)
def test_what_a_fault_needs_may_not(at: int, operation: str, steps: tuple[str, ...]) -> None:
    assert not is_harmless(EVIDENCE, at, operation, *steps)


def test_a_repeat_that_alone_shows_an_effect_may_not_be_altered() -> None:
    rows = [row for row in ROWS if row is not ROWS[9]]
    rows[9] = {**rows[9], "repeat": True}
    assert not is_harmless(evidence_of(rows), 9, "flipped", "repeat")


def _word(said_at: int, source: str, time_ms: int, end: int) -> dict[str, Any]:
    return {"said_at": said_at, "source": source, "time_ms": time_ms, "offsets": {"0": end}}


WORDS = evidence_of(
    [
        _word(1, "north", 10, 5),
        _word(2, "south", 10, 5),
        _word(3, "north", 20, 5),
        _word(4, "north", 20, 9),
        _word(5, "north", 30, 12),
        {"end": True, "rows": 5},
    ],
    "statements.jsonl",
)


@pytest.mark.parametrize(
    ("at", "harmless"),
    [
        (0, True),  # the next one says more, of no more records
        (1, False),
        (2, False),
        (3, True),  # an earlier one said as much
        (4, False),
    ],
)
def test_a_word_that_others_do_not_say_may_not_be_altered(at: int, harmless: bool) -> None:
    assert is_harmless(WORDS, at, "dropped") is harmless
    assert is_harmless(WORDS, at, "one less", "time_ms") is harmless


@pytest.mark.parametrize(
    ("start", "new", "harmless"),
    [("1.00", "1.04", True), ("1.00", "1.70", False), ("1.00", "1a00", False)],
)
def test_a_start_is_the_same_within_two_ticks(
    start: str, new: str, harmless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = {**FAULT, "process_before": f"7@{start}"}
    changed = json.dumps({**fault, "process_before": f"7@{new}"}).encode() + b"\n"
    monkeypatch.setattr(Alteration, "applied", lambda *_: changed)
    assert is_harmless(evidence_of([fault]), 0, "character changed", "process_before") is harmless


@pytest.mark.parametrize("others", [[], [{**FAULT, "announced_at": 1}]], ids=["alone", "with another"])
def test_an_announcement_that_others_name_too_may_not_be_left_out(others: list[dict[str, Any]]) -> None:
    rows = [{**FAULT, "announced_at": 5_000}, *others]
    assert is_harmless(evidence_of(rows), 0, "dropped", "announced_at") is (not others)
