"""Witnesses, announcements and moments that no fault needs."""

from __future__ import annotations

from tests.tampered.bases import OF_GATEWAYS
from tests.tampered.harmless.entry import ANY, HISTORIES, LITTLE, Harmless
from tests.tampered.needed import (
    by_no_fault,
    by_no_fault_that_names,
    by_no_fault_that_struck,
    names_the_same_process,
    since_others_announce,
    with_moments_on_their_side,
    without_another_that_names_one,
)

WITNESSES: tuple[Harmless, ...] = (
    Harmless("history.jsonl", "process *", ANY, "no fault names this process", by_no_fault_that_names),
    Harmless("history.jsonl", "process seen.role", ("dropped", "null"), "who is noted without a role may be anybody"),
    Harmless(
        "history.jsonl",
        "process gone.code",
        ("dropped", "null"),
        "only a parent is told how a process ended; that it did stands",
    ),
    Harmless("history.jsonl", "process gone.code", ANY, "no fault struck this process", by_no_fault_that_struck),
    Harmless(
        "history.jsonl",
        "process seen.t|process gone.t|process gone.last",
        (*LITTLE, "another that occurs"),
        "a moment, on the same side of each fault that names the process",
        with_moments_on_their_side,
    ),
    Harmless(
        "history.jsonl",
        "process seen|process gone|process seen.process",
        ("dropped", "character changed", "text longer", "another that occurs"),
        "the process announced itself, or the fault does not say that it ended",
        since_others_announce,
    ),
    Harmless(
        "history.jsonl",
        "step*",
        ANY,
        "no fault needs it: that its epoch came so far, or did work again, other steps tell",
        by_no_fault,
    ),
    Harmless(
        "history.jsonl",
        "fault.process_before|fault.process_after|driver killed.process",
        ("character changed",),
        "a start within two clock ticks of what it was names the same process",
        names_the_same_process,
    ),
    Harmless(
        "history.jsonl",
        "fault.announced_at",
        ("dropped", "null"),
        "no fault of its history names one, as before they did; that its epoch came so far stands",
        without_another_that_names_one,
    ),
    Harmless("history.jsonl", "driver killed", ("dropped",), "the witness saw it end, or a fault names it"),
    Harmless(
        "observed/epilogue.json",
        "document.steps[].after_epoch",
        ("zero", "far less"),
        "of a restart with its checkpoint: the lineage went on there too, and places tell what was sent again",
        run=OF_GATEWAYS,
    ),
    Harmless("history.jsonl", "driver stopped", ("dropped",), "the witness saw it end; of others it is missed"),
    Harmless("history.jsonl", "driver killed.process", ("dropped", "null"), "its pid says which driver it was"),
    Harmless(
        HISTORIES,
        "*.t",
        (*LITTLE, "another that occurs"),
        "a moment; its line stays in its place, and what was struck then is the same",
    ),
    Harmless(
        "history.jsonl",
        "fault.injected_at",
        LITTLE,
        "a moment; the same epoch ran then, had come as far, and was done again after it",
    ),
    Harmless("history.jsonl", "driver started", ("doubled",), "said twice: it is one generation, of one driver"),
    Harmless("history.jsonl", "epoch declared", ("doubled",), "said twice: its publication says that it was repeated"),
)
