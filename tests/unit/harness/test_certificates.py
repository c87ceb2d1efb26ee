"""Certificates are judged: complete windows lack nothing, and who is let go was silent for the bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.driver.clock import Silence
from tests.harness.checkers import aggregates, certificates, in_time
from tests.harness.checkers.case import Case
from tests.harness.checkers.certificates import find_held_for_ever, find_refused, incomplete, let_go
from tests.harness.checkers.reference import Outcome
from tests.harness.checkers.releases import find_unheeded, last_sent, too_early, unheard
from tests.harness.checkers.statements import Said, find_misattributed, statements, unsaid, untrue
from tests.harness.evidence import Clock, EvidenceError
from tests.harness.judge.expectations import _certificates
from tests.harness.results import Oracle, Verdict
from tests.harness.run_directory import RunDirectory
from tests.harness.sends import Send
from tests.harness.workload.gateways import GATEWAYS
from tests.unit.harness.gateway_world import AWAY, AWAY_FROM_S, AWAY_S, GatewayWorld

LONG_MS, SHORT_MS = 600_000, 10_000


@cache
def world(hold_max_ms: int) -> GatewayWorld:
    return GatewayWorld(hold_max_ms)


def judged(one: GatewayWorld, monkeypatch: pytest.MonkeyPatch) -> Oracle:
    monkeypatch.setattr(certificates, "statements", lambda _: one.said)
    return certificates.judge(one.case)


def fails(one: GatewayWorld, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    oracle = judged(one, monkeypatch)
    assert oracle.verdict is Verdict.FAIL
    assert any(says in line for line in oracle.evidence), oracle.evidence


def late(case: Case) -> int:
    return sum(outcome == Outcome.LATE for outcome in case.reference.outcomes)


def test_a_hold_beyond_the_outage_refuses_nothing_and_every_window_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    one = world(LONG_MS)
    assert late(one.case) == 0
    oracle = judged(one, monkeypatch)
    assert oracle.verdict is Verdict.PASS, oracle.evidence
    assert "windows are complete" in oracle.says
    assert "released" not in oracle.says
    kept = in_time.count_kept_by_partition(one.sends, one.case.reference, one.case.manifest.settings)
    assert kept > 1_000, "the largest time seen would have refused what the gateway held"


def test_a_hold_within_the_outage_lets_go_and_what_comes_later_is_refused_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = world(SHORT_MS)
    gone = let_go(one.case)
    assert len(gone) == late(one.case) > 1_000
    assert {one.sends[index].gateway for index in gone} == {AWAY}
    oracle = judged(one, monkeypatch)
    assert oracle.verdict is Verdict.PASS, oracle.evidence
    assert f"were released by the bound, without {AWAY}" in oracle.says
    assert f"{len(gone)} records of {AWAY} were refused" in oracle.says


@pytest.mark.parametrize(("hold_max_ms", "says"), [(LONG_MS, "would have refused"), (SHORT_MS, "had been let go")])
def test_what_comes_before_its_certificate_is_in_time_unless_that_names_its_gateway(
    hold_max_ms: int, says: str
) -> None:
    oracle = in_time.judge(world(hold_max_ms).case)
    assert oracle.verdict is Verdict.PASS, oracle.evidence
    assert says in oracle.says


def test_what_comes_before_a_certificate_that_names_nobody_is_in_time() -> None:
    """Of a driver that waits too late for who is back: some of its records come before it does."""
    one = GatewayWorld(SHORT_MS, ReadsFirst())
    assert in_time.judge(one.case).verdict is Verdict.PASS
    assert in_time.judge(replace_released(one).case).verdict is Verdict.FAIL


def test_what_was_let_go_is_no_offence_against_the_generators_plan_and_anything_else_is() -> None:
    one = world(SHORT_MS).case
    assert aggregates.find_misclassified(one.sends, one.reference, let_go(one)) == []
    assert len(aggregates.find_misclassified(one.sends, one.reference)) > 1_000


@pytest.mark.parametrize("hold_max_ms", [LONG_MS, SHORT_MS])
def test_a_word_that_runs_ahead_of_what_was_sent_fails_the_run(
    hold_max_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(GatewayWorld(hold_max_ms, runs_ahead_ms=400_000), monkeypatch, "that nothing before")


def test_a_certificate_that_says_complete_and_lacks_records_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one = replace_released(world(SHORT_MS))
    assert let_go(one.case) == frozenset()
    fails(one, monkeypatch, "let nobody of that name go")


def test_a_gateway_that_is_left_behind_is_excused_like_one_that_is_let_go() -> None:
    one = world(SHORT_MS)
    assert let_go(replace_released(one, forced=True).case) == let_go(one.case) != frozenset()


def replace_released(of: GatewayWorld, *, forced: bool = False) -> GatewayWorld:
    """The same chain, whose clocks do not say who was let go; or that time was forced to where it is."""
    found = GatewayWorld.__new__(GatewayWorld)
    found.__dict__.update(of.__dict__, epochs=[])
    for record in of.epochs:
        changed = {"released": (), "forced_ms": record.watermark_ms if forced else None}
        clock = (record.clock or Clock()).model_copy(update=changed)
        found.epochs = [*found.epochs, record.model_copy(update={"clock": clock})]
    return found


def ignored(now_ms: int, clock: Clock) -> Clock:
    """A driver that waits for nobody from a moment within the outage on."""
    early = now_ms > 1_000 * (AWAY_FROM_S + 3)
    return clock.model_copy(update={"released": (AWAY,)}) if early else clock


def invented(now_ms: int, clock: Clock) -> Clock:
    """A driver that takes another gateway's word for it."""
    return clock.model_copy(update={"sources": dict.fromkeys(clock.sources, max(clock.sources.values(), key=_or_0))})


def forgotten(_: int, clock: Clock) -> Clock:
    """A driver that knows of no source."""
    return clock.model_copy(update={"sources": {}})


def _or_0(time_ms: int | None) -> int:
    return time_ms or 0


@pytest.mark.parametrize(
    ("bends", "says"),
    [
        (ignored, "after its last word, hold_max_ms is 600000"),
        (invented, "was never said"),
        (forgotten, "waits for [], registered are"),
    ],
)
@pytest.mark.thinned(3)
def test_a_hold_that_is_ignored_fails_the_run(
    bends: Callable[[int, Clock], Clock], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(GatewayWorld(LONG_MS, bends), monkeypatch, says)


def test_a_word_counts_once_what_it_speaks_of_was_read() -> None:
    one = world(LONG_MS)
    ends = {0: 10**9}
    farther = [said._replace(offsets=ends) for said in one.said]
    found = unsaid(one.epochs, farther, one.case.manifest.settings)
    assert "not said yet by what was read" in found[0]


def test_a_gateway_that_nobody_lets_go_has_shown_nothing_of_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    one = GatewayWorld(SHORT_MS, lambda _, clock: clock.model_copy(update={"released": ()}))
    assert len(find_held_for_ever(one.case)) == 1
    oracle = judged(one, monkeypatch)
    assert oracle.verdict is Verdict.UNKNOWN
    assert "no epoch let it go" in oracle.says
    assert find_held_for_ever(world(LONG_MS).case) == find_held_for_ever(world(SHORT_MS).case) == []


def test_the_last_record_before_a_word_may_lie_just_before_its_offset() -> None:
    one = Send("a", "u", 4_999, 0, "fresh", None, "events", 2, 7, gateway="north")
    assert untrue([Said(1, "north", 5_000, {2: 8})], [one]) == []
    for said in (Said(1, "north", 5_000, {2: 7}), Said(1, "north", 5_000, {})):
        assert len(untrue([said], [one])) == 1
    assert untrue([Said(1, "north", 4_999, {2: 7}), Said(1, "south", 5_000, {})], [one]) == []
    assert untrue([Said(1, "north", 5_000, {})], [one._replace(kind="late")]) == []


def test_who_is_let_go_at_the_bound_is_let_go_in_time() -> None:
    one = world(SHORT_MS)
    assert too_early(one.epochs, one.said, one.events, SHORT_MS) == []
    assert too_early(one.epochs, one.said, one.events, SHORT_MS + 3_000)
    assert incomplete(one.case, let_go(one.case)) == []


class Deaf:
    """A driver that hears nothing more of a gateway that speaks, and lets it go by its own bound."""

    FROM_MS = 3_000

    def __init__(self) -> None:
        self.last: int | None = None

    def __call__(self, now_ms: int, clock: Clock) -> Clock:
        if now_ms < self.FROM_MS:
            self.last = clock.sources[AWAY]
            return clock.model_copy(update={"released": ()})
        gone = (AWAY,) if now_ms >= self.FROM_MS + SHORT_MS + 1_500 else ()
        return clock.model_copy(update={"released": gone, "sources": {**clock.sources, AWAY: self.last}})


def test_a_driver_that_lets_go_whom_it_does_not_hear_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one = GatewayWorld(SHORT_MS, Deaf())
    assert too_early(one.epochs, one.said, one.events, SHORT_MS) == []
    fails(one, monkeypatch, f"let {AWAY} go, which had said")
    for heeds in (world(SHORT_MS), world(LONG_MS)):
        assert unheard(heeds.epochs, heeds.said, heeds.events, "events") == []


class ReadsFirst:
    """A driver that waits for who is back once all was read that it speaks of, and not before."""

    def __init__(self) -> None:
        self._now_ms, self._last = 0, dict[str, int | None]()
        self._silence = Silence(SHORT_MS, lambda: self._now_ms / 1000)

    def __call__(self, now_ms: int, clock: Clock) -> Clock:
        self._now_ms, before, self._last = now_ms, self._last, clock.sources
        gone = self._silence.hear({name: time != before.get(name) for name, time in clock.sources.items()})
        return clock.model_copy(update={"released": tuple(sorted(gone))})


def in_time_once_heard(one: GatewayWorld) -> list[int]:
    """Records that were refused though their gateway had been heard before their window was closed."""
    back_ms = next(
        said.said_at for said in one.said if said.source == AWAY and said.said_at >= 1000 * (AWAY_FROM_S + AWAY_S)
    )
    declared = {event["epoch"]: event["t"] for event in one.events if event["event"] == "epoch"}
    found = find_refused(one.sends, one.case.reference, one.epochs, one.case.manifest.settings)
    return [index for index, epoch in found if declared[epoch.epoch] >= back_ms]


def test_a_driver_that_does_not_wait_for_a_gateway_that_it_has_heard_fails_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = GatewayWorld(SHORT_MS, ReadsFirst())
    assert in_time_once_heard(one), "it refuses what had been acknowledged"
    assert too_early(one.epochs, one.said, one.events, SHORT_MS) == unheard(one.epochs, one.said, one.events, "e") == []
    fails(one, monkeypatch, f"went on without {AWAY}, which was back")
    assert in_time_once_heard(world(SHORT_MS)) == []


def test_of_a_driver_that_could_not_hear_it_nothing_is_demanded() -> None:
    one = GatewayWorld(SHORT_MS, ReadsFirst())
    read = last_sent(one.epochs, one.case.reference.epochs_of, one.sent_at)
    assert (found := find_unheeded(one.epochs, one.said, one.events, read, SHORT_MS))
    back_ms = 1000 * (AWAY_FROM_S + AWAY_S)
    for target, since, until, excused in (
        ("broker", back_ms, back_ms + 1, True),
        ("broker", 0, back_ms - 9_000, True),
        ("broker", 0, 9_000, False),
        ("broker", back_ms + 60_000, back_ms + 61_000, False),
        ("partition", back_ms, back_ms + 1, False),
    ):
        fault = {"event": "fault", "t": until, "target": target, "injected_at": since, "healed_at": until}
        assert find_unheeded(one.epochs, one.said, [*one.events, fault], read, SHORT_MS) == ([] if excused else found)
    later = [said._replace(delivered_at=None if said.delivered_at is None else 10**9) for said in one.said]
    assert find_unheeded(one.epochs, later, one.events, read, SHORT_MS) == [], "the broker had it when all was over"


def test_words_of_which_nobody_knows_when_the_broker_had_them_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for one, verdict in ((world(SHORT_MS), Verdict.UNKNOWN), (world(LONG_MS), Verdict.PASS)):
        said = [word._replace(delivered_at=None) for word in one.said]
        monkeypatch.setattr(certificates, "statements", lambda _, said=said: said)
        oracle = certificates.judge(one.case)
        assert oracle.verdict is verdict
        assert (f"{AWAY} was let go, and of no word" in oracle.says) is (verdict is Verdict.UNKNOWN)


def test_a_file_of_words_tells_of_each_when_the_broker_had_it(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    word = {"said_at": 5, "source": "north", "time_ms": 7, "offsets": {"0": 1}}
    had = {"delivered_at": 9, "source": "north", "time_ms": 7}
    with directory.statements_writer() as lines:
        for line in (word, {**word, "said_at": 6}, {**word, "source": "south"}, had, {**had, "delivered_at": 11}):
            lines.write(line)
    found = statements(directory)
    assert [(one.said_at, one.source, one.delivered_at) for one in found] == [
        (5, "north", 9),
        (6, "north", 11),
        (5, "south", None),
    ]
    with directory.statements_writer() as lines:
        lines.write(word)
        lines.write({"delivered_at": "soon", "source": "north", "time_ms": 7})
    with pytest.raises(EvidenceError, match=r"jsonl:2"):
        statements(directory)


def test_a_record_is_of_the_gateway_of_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    one = world(LONG_MS)
    assert find_misattributed(one.sends, GATEWAYS) == []
    twice = next(i for i, send in enumerate(one.sends) if send.user in {earlier.user for earlier in one.sends[:i]})
    for gateway in (next(name for name in GATEWAYS if name != one.sends[twice].gateway), "no-gate", None):
        sends = [*one.sends]
        sends[twice] = sends[twice]._replace(gateway=gateway)
        assert len(find_misattributed(sends, GATEWAYS)) == 1
    monkeypatch.setattr(certificates, "find_misattributed", lambda *_: ["of another one"])
    assert judged(one, monkeypatch).verdict is Verdict.FAIL


@pytest.mark.parametrize("said", [True, False])
def test_what_gateways_said_is_judged_whatever_the_manifest_says(said: bool, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    if said:
        directory.statements_path.write_text("")
    case: Any = SimpleNamespace(run=directory, manifest=SimpleNamespace(settings=SimpleNamespace(gateways=())))
    assert [name for name, *_ in _certificates(case)] == [certificates.NAME] * said
