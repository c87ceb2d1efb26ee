"""Gateways that were away, as the injector tells, beside what was sent and said meanwhile, which it does not write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.harness.checkers.statements import Said
from tests.harness.lag_sorts import GATEWAY
from tests.harness.sends import Send

APART_MS = 2_000
"""What was under way when a gateway was struck, or let go before that was noted; and two clocks."""
ASIDE = ("late", "resent")
"""Kinds that a sender sends past a gateway that is away."""


def complaints(
    events: Iterable[Mapping[str, Any]], sends: Sequence[Send], sent_at: Sequence[int], said: Sequence[Said]
) -> list[str]:
    """Describe faults in which a gateway was not away as they tell."""
    faults = (one for one in events if one["event"] == "fault" and one.get("target") == GATEWAY and one.get("hit"))
    return [why for fault in faults for why in _of_one(fault, sends, sent_at, said)]


def _of_one(
    fault: Mapping[str, Any], sends: Sequence[Send], sent_at: Sequence[int], said: Sequence[Said]
) -> Iterator[str]:
    name = str(fault.get("process_before")).removeprefix(f"{GATEWAY} ")
    began, ended, held_s, kept = (fault.get(field) for field in ("injected_at", "healed_at", "held_s", "kept"))
    if not (type(began) is type(ended) is type(kept) is int and isinstance(held_s, int | float)):
        yield f"{name} is told to have been away, and not from when to when, or with how many records"
        return
    if abs(held_s - (ended - began) / 1000) > APART_MS / 1000:
        yield f"{name} is told to have been away for {held_s:g} s, and from {began} to {ended}"
    mine = [at for at, send in zip(sent_at, sends, strict=True) if send.gateway == name and send.kind not in ASIDE]
    sent = sum(began + APART_MS < at < ended - APART_MS for at in mine)
    words = sum(began + APART_MS < one.said_at < ended - APART_MS for one in said if one.source == name)
    if sent or words:
        yield f"{name} is told to have been away, and sent {sent} records and said {words} words meanwhile"
    later = sum(at >= ended - APART_MS for at in mine)
    if not 0 < kept <= later:
        yield f"{name} is told to have kept back {kept} records, and it sent {later} when it was back"
