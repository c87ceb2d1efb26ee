"""A strike at one copy of several counts where readings show the hit, the copies, and answers all along; else not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.absorbed import GAP_MS, complaint
from tests.harness.aftermath import Aftermath
from tests.harness.checkers import faults, lines
from tests.harness.checkers.claim import sentence
from tests.harness.results import Effect, Fault
from tests.unit.harness.test_aftermath import AT, BEFORE, DONE, NEXT, Row, epoch

UID = "0000000{}-0000-0000-0000-000000000000"
ONE, TWO, THREE = (f"kafka-{number}@{UID.format(number)}/{'abc'[number] * 12}" for number in range(3))
FRESH = ONE.replace("a" * 12, "f" * 12)
BACK_AT = 40_000
AFTER = [epoch(41_000, 9, "declared"), epoch(44_000, 9, "published", repeat=False)]


def reading(t: int, *ready: str, copies: int = 3, **more: Any) -> Row:
    told = {"role": "broker", "copies": copies, "ready": list(ready), "asked": t - 50, "answered": True}
    return {"t": t, "event": "service", **told, **more}


def readings() -> list[Row]:
    """A broker that is away for half a minute."""
    return [
        reading(4_900, ONE, TWO, THREE),
        *(reading(t, TWO, THREE) for t in range(5_600, 39_700, 1_500)),
        reading(BACK_AT + 200, FRESH, TWO, THREE),
    ]


def struck(kind: str = "sigkill", **more: Any) -> Fault:
    fields = {"process_before": ONE, "process_after": FRESH, "injected_at": AT, "healed_at": BACK_AT, "epoch": 3}
    return Fault(kind=kind, target="broker", **{**fields, **more})


def effect(fault: Fault, rows: list[Row]) -> Effect:
    return Aftermath(fault, [*BEFORE, DONE, *NEXT, *AFTER, *rows]).effect


@pytest.mark.parametrize("kind", ["sigkill", "pod_delete_now", "disk_lost"])
def test_a_copy_that_is_gone_while_the_others_answer_is_an_effect_of_its_own(kind: str) -> None:
    assert complaint(struck(kind), readings()) is None
    assert effect(struck(kind), readings()) is Effect.ABSORBED


def test_without_a_record_of_copies_an_effect_is_needed_as_ever() -> None:
    assert effect(struck(), []) is Effect.NONE
    assert complaint(struck(), []) == f"no reading counts the copies of {ONE}"


def test_an_effect_of_another_sort_comes_first() -> None:
    redone = {**BEFORE[2], "t": 5_300}
    assert Aftermath(struck(), [*BEFORE, redone, DONE, *NEXT, *AFTER, *readings()]).effect is Effect.REDONE


def each(**fields: Any) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [{**row, **fields} for row in rows]


def second_away(rows: list[Row]) -> list[Row]:
    rows[3]["ready"] = [TWO]
    return rows


def silent(rows: list[Row]) -> list[Row]:
    rows[2] |= {"answered": False, "says": "no leader"}
    return rows


def never_gone(rows: list[Row]) -> list[Row]:
    return [{**row, "ready": [ONE, TWO, THREE]} for row in rows]


def one_copy(rows: list[Row]) -> list[Row]:
    return [{**row, "copies": 1, "ready": [who for who in row["ready"] if who in (ONE, FRESH)]} for row in rows]


def only_afterwards(rows: list[Row]) -> list[Row]:
    return [rows[0], reading(12_000, FRESH, TWO, THREE), reading(30_000, FRESH, TWO, THREE), rows[-1]]


NOT_ABSORBED: list[tuple[Callable[[list[Row]], list[Row]], str]] = [
    (never_gone, "it was not hit"),
    (one_copy, "it takes two"),
    (lambda rows: [*rows, reading(4_950, TWO, THREE)], "the last reading before it does not count"),
    (lambda rows: [*rows[:2], *rows[-2:]], "was not asked for"),
    (silent, "did not answer at .*no leader"),
    (second_away, "2 copies of the broker were away at once"),
    (only_afterwards, "no reading was taken while a copy"),
    (lambda rows: [row for row in rows if row["t"] < AT], "it was not hit"),
    (lambda rows: [{name: row[name] for name in row if name != "answered"} for row in rows], "nobody asked"),
    (each(ready=[TWO, THREE]), "no reading counts the copies"),
]


@pytest.mark.parametrize(("change", "why"), NOT_ABSORBED, ids=[why for _, why in NOT_ABSORBED])
def test_whatever_is_missing_of_it_the_strike_has_no_effect(change: Callable[[list[Row]], list[Row]], why: str) -> None:
    rows = change(readings())
    found = complaint(struck(), rows)
    assert found is not None
    assert re.search(why, found), found
    assert effect(struck(), rows) is Effect.NONE


def test_a_strike_that_ends_nobody_or_is_not_undone_is_absorbed_by_nobody() -> None:
    assert complaint(struck("sigstop"), readings()) == "sigstop does not end whom it strikes"
    assert complaint(struck(healed_at=None), readings()) == "when all copies were back is not known"


def test_of_a_restart_one_by_one_every_copy_has_to_be_gone() -> None:
    fault = struck("rollout", process_before=f"{ONE} + {TWO}")
    assert complaint(fault, readings()) == f"{TWO} is in every reading after it: it was not hit"
    rolled = [
        reading(4_900, ONE, TWO, THREE),
        reading(9_000, TWO, THREE),
        reading(26_000, FRESH, THREE),
        reading(BACK_AT, FRESH, f"{TWO}0", THREE),
    ]
    assert complaint(fault, rolled) is None


def test_pods_of_a_drain_are_counted_by_their_roles_and_one_of_none_keeps_it_from_counting() -> None:
    """A pod of one copy, or a driver, stands in no reading: such a drain needs an effect of its own."""
    operator = [{**row, "role": "operator"} for row in readings()]
    for row in operator:
        del row["answered"]
        row["ready"] = [who.replace("kafka", "spark-operator") for who in row["ready"]]
    both = f"{ONE} + {ONE.replace('kafka', 'spark-operator')}"
    drain = struck("node_drain", process_before=both)
    assert complaint(drain, [*readings(), *operator]) is None
    assert complaint(drain, operator) == f"no reading counts the copies of {ONE}"
    alone = struck("node_drain", process_before=f"{both} + postgres-0@{UID.format(7)}/777777777777")
    assert "postgres-0" in str(complaint(alone, [*readings(), *operator]))


def test_gaps_are_measured_up_to_the_return() -> None:
    late = [*readings()[:3], reading(BACK_AT + GAP_MS, FRESH, TWO, THREE)]
    fault = struck(healed_at=BACK_AT + GAP_MS)
    assert "was not asked for" in str(complaint(fault, late))


def history(rows: list[Row], **more: Any) -> list[Row]:
    """All that the judge asks of a hit, and readings."""
    seen = {"event": "process", "state": "seen"}
    told = {
        **struck().model_dump(exclude_none=True),
        "signal": "SIGKILL",
        "phase": "ids_decided",
        "hit": True,
        "announced_at": 4_300,
        "shard": 0,
        **more,
    }
    own = [
        {**row, "ms": {"total": row["t"] - 4_000}} if row.get("state") == "published" else row
        for row in (*BEFORE, DONE, *NEXT, *AFTER)
    ]
    processes = [
        {**seen, "t": 4_000, "process": ONE},
        {**seen, "t": 5_400, "process": ONE, "state": "gone", "last": 5_000, "code": 137},
        {**seen, "t": 6_000, "process": FRESH},
    ]
    return sorted([*own, *processes, *rows, {"t": 45_000, "event": "fault", **told}], key=lambda row: int(row["t"]))


def test_the_judge_takes_it_for_a_hit_by_that_evidence_alone() -> None:
    (found,) = faults.check(history(readings()))
    assert (found.refuted, found.fault.hit, found.fault.effect) == (None, True, Effect.ABSORBED)
    said = sentence({}, [found.fault], (), ())
    assert "whatever was struck absorbed by copies (broker 1)" in said
    for rows in ([], never_gone(readings()), one_copy(readings())):
        (idle,) = faults.check(history(rows))
        assert (idle.refuted, idle.fault.hit, idle.idle) == (None, False, True)


def test_a_disk_is_lost_where_another_volume_came_in_its_place() -> None:
    lost = {"kind": "disk_lost", "signal": None, "process_after": FRESH.replace("00000000-", "00000009-")}
    back = [{"t": 6_100, "event": "process", "state": "seen", "process": lost["process_after"]}]
    for volumes, why in [
        ({"before": "pvc-1", "after": "pvc-2"}, None),
        ({"before": "pvc-1", "after": "pvc-1"}, "it came back with the same volume, pvc-1"),
        ({"before": "pvc-1"}, "its volume before and after it is not known"),
        (None, "its volume before and after it is not known"),
    ]:
        (found,) = faults.check(history([*readings(), *back], volumes=volumes, **lost))
        assert (found.refuted is None) == (why is None), found.refuted
        assert why is None or why in str(found.refuted)


@pytest.mark.parametrize(
    "fields",
    [{"role": "driver"}, {"ready": [ONE, ONE]}, {"ready": ONE}, {"copies": True}, {"asked": 99_999}, {"answered": 1.5}],
    ids=str,
)
def test_a_reading_that_nobody_writes_is_found(fields: Row) -> None:
    assert not lines.find_misplaced(readings())
    assert len(lines.find_misplaced([{**readings()[0], **fields}])) == 1
