"""Between a gateway's return and its first word nobody can wait for it: that is soon over, and what it cost is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.checkers import returns
from tests.harness.checkers.certificates import find_refused, let_go
from tests.harness.checkers.releases import last_sent
from tests.harness.checkers.returns import before_certificate, silent
from tests.harness.checkers.statements import Said
from tests.harness.results import Verdict
from tests.unit.harness.gateway_world import AWAY, GatewayWorld
from tests.unit.harness.test_certificates import SHORT_MS, ReadsFirst, judged, world

BACK = 100_000
FAULT = {
    "event": "fault",
    "t": BACK,
    "target": "gateway",
    "hit": True,
    "process_before": "gateway north",
    "injected_at": 60_000,
    "healed_at": BACK,
}
BEFORE = Said(59_000, "north", 5, {})


def word(after_ms: int, time_ms: int = 6, source: str = "north") -> Said:
    return Said(BACK + after_ms, source, time_ms, {})


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([word(-1_999)], None),
        ([word(10_000)], None),
        ([word(10_001)], "said how far it is 10001 ms later"),
        ([word(500, 5), word(10_001)], "said how far it is 10001 ms later"),
        ([word(500, source="south"), word(10_001)], "said how far it is 10001 ms later"),
        ([], "never said again how far it is"),
        ([word(500, 5)], "never said again how far it is"),
    ],
)
def test_a_gateway_that_is_back_names_a_later_time_soon(said: list[Said], why: str | None) -> None:
    found = [*silent([FAULT], [BEFORE, *said])]
    assert len(found) == (why is not None)
    assert (why or "") in "".join(found)


@pytest.mark.parametrize(
    ("other", "excused"),
    [
        ({"target": "broker", "injected_at": BACK + 9_000, "healed_at": BACK + 60_000}, True),
        ({"target": "broker", "injected_at": 1, "healed_at": 2}, False),
        ({"target": "partition", "injected_at": BACK + 9_000, "healed_at": BACK + 60_000}, False),
    ],
)
def test_while_a_server_is_struck_it_need_not(other: dict[str, Any], excused: bool) -> None:
    events = [FAULT, {**FAULT, "hit": False, "process_before": "gateway west"}, {"event": "fault", "t": 9, **other}]
    assert bool([*silent(events, [BEFORE, word(20_000)])]) is not excused


def count(one: GatewayWorld, events: list[dict[str, Any]]) -> int:
    case, gone = one.case, let_go(one.case)
    late = find_refused(case.sends, case.reference, case.chain.pinned, case.manifest.settings)
    read = last_sent(one.epochs, case.reference.epochs_of, one.sent_at)
    return before_certificate((it for it in late if it[0] in gone), one.sends, one.sent_at, read, events)[AWAY]


def test_refused_before_their_certificate_are_those_of_a_driver_that_had_not_heard_them() -> None:
    """Here it would have had to: what it has no word of is told in the same number."""
    assert count(world(SHORT_MS), []) == 0
    assert count(GatewayWorld(SHORT_MS, ReadsFirst()), []) > 100


def test_an_epoch_is_pinned_after_the_one_before_it_was_published() -> None:
    one = world(SHORT_MS)
    published = [
        {"event": "epoch", "state": "published", "epoch": record.epoch, "t": 10**9 * (record.epoch > 0)}
        for record in one.epochs
    ]
    assert count(one, published) == len(let_go(one.case)) > 1_000
    assert count(one, [{**event, "t": 0} for event in published]) == 0


def test_a_certificate_tells_how_much_of_its_gateway_came_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    one = world(SHORT_MS)
    assert ", 0 of them acknowledged before that, when it was back" in judged(one, monkeypatch).says
    monkeypatch.setattr(returns, "silent", lambda *_: ["it was back"])
    assert judged(one, monkeypatch).verdict is Verdict.UNKNOWN
