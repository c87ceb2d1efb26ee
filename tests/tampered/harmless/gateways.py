"""Words of gateways, and answers: what an epoch has of a word is judged, and its ends by what was acknowledged."""

from __future__ import annotations

from typing import Any

from tests.tampered.altered import Altered
from tests.tampered.harmless.entry import ANY, LITTLE, ORDER, Harmless
from tests.tampered.needed import says_nothing_alone


def _of_a_lag(altered: Altered) -> bool:
    return bool(altered.row.get("kind") == "held_back")


def _but_for_shown(altered: Altered) -> bool:
    """Whether a clock is another one only in what partitions have shown."""
    now: Any = altered.gained[0]
    for step in altered.steps:
        now = now[step]
    return {**now, "shown": None} == {**altered.value, "shown": None}


OF_A_GATEWAY: tuple[Harmless, ...] = (
    Harmless(
        "statements.jsonl",
        "line",
        (*ORDER, "doubled"),
        "words of one gateway stand in their order; what a queue did not take is said again",
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].clock.shown*",
        ANY,
        "nobody believes it: the judge finds out itself what partitions have shown",
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].clock",
        ("another that occurs",),
        "of another epoch, with as much of gateways and idle partitions",
        _but_for_shown,
    ),
    Harmless(
        "sent.jsonl",
        "*.acked_at",
        LITTLE,
        "a moment: after it was sent, and on the same side of words that are five seconds away",
    ),
    Harmless(
        "manifest.json",
        "document.settings.rate",
        (*LITTLE, "far more"),
        "told in reports as it was asked for; when each record was sent is in its line",
    ),
    Harmless(
        "history.jsonl",
        "fault.planned_s",
        ANY,
        "of a lag the least that it had to last; what it did is held against its ends, and sends",
        _of_a_lag,
    ),
    Harmless(
        "history.jsonl",
        "fault.held_s|fault.kept|fault.healed_at",
        LITTLE,
        "of a lag a figure, within two seconds of its ends; as many records came after it",
        _of_a_lag,
    ),
    Harmless(
        "statements.jsonl",
        "line.said_at",
        (*LITTLE, "another that occurs"),
        "a moment, within five seconds of it: the same records had been acknowledged, and none more",
    ),
    Harmless(
        "statements.jsonl",
        "line.delivered_at",
        (*LITTLE, "another that occurs"),
        "a moment after the word was said; no epoch went on without its gateway since",
    ),
    Harmless(
        "statements.jsonl",
        "line.offsets|line.offsets.*",
        ("one more", "one less", "another that occurs"),
        "ends that acknowledgements made within five seconds, and that the same epoch had read",
    ),
    Harmless(
        "statements.jsonl",
        "line|line.source|line.time_ms",
        ANY,
        "no epoch needs this word: another one of its gateway says as much of no more records",
        says_nothing_alone,
    ),
    Harmless(
        "asked.jsonl",
        "*",
        (*ORDER, "doubled"),
        "each answer is held against the chain alone, and more of them than one are well",
    ),
    Harmless(
        "asked.jsonl",
        "line.at",
        (*LITTLE, "another that occurs"),
        "a moment: the same epochs had been declared and recorded by then",
    ),
    Harmless(
        "asked.jsonl",
        "line.epoch",
        ("one less",),
        "a metric read within five seconds of an epoch's publication may be of the one before, which let as many go",
    ),
    Harmless(
        "asked.jsonl", "line.words|line.driver", ANY, "words for people, of a command that answered; a log's name"
    ),
)
