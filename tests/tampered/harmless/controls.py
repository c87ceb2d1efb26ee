"""Controls: each is there to show one offence, by its sink alone."""

from __future__ import annotations

from tests.tampered.harmless.entry import ANY, LITTLE, ORDER, Harmless

OF_A_CONTROL: tuple[Harmless, ...] = (
    Harmless(
        "controls/*/manifest.json",
        "document.settings.*|document.workload*|document.schemas*|document.faults*",
        ANY,
        "a control has no chain: nothing of it is recomputed from settings or planned numbers",
    ),
    Harmless(
        "controls/*/history.jsonl",
        "epoch *.generation|epoch *.in",
        ANY,
        "figures; a control has no chain, and how many rows it published its sink shows",
    ),
    Harmless(
        "controls/*/history.jsonl",
        "phase.t",
        ("far less", "zero"),
        "of the first line; nothing stands before it, and what follows is of the time of the end",
    ),
    Harmless(
        "controls/*/history.jsonl",
        "phase.lines",
        ("dropped", "null"),
        "a control recorded before its end told of them has none; its begin, its batches and its end stand",
    ),
    Harmless(
        "controls/*/history.jsonl",
        "fault.phase|fault.process_before|fault.process_after",
        ANY,
        "a control has no witness; that its batch ran, and who was struck is not who came after, stands",
    ),
    Harmless("controls/*/history.jsonl", "fault.injected_at", LITTLE, "a moment; the same batch ran then"),
    Harmless(
        "controls/*/observed/*",
        "line.offset|line.partition|line.source*|line.epoch|line.object|line.message*",
        ANY,
        "of a control any copy will do, wherever it stands",
    ),
    Harmless(
        "controls/*/observed/*",
        "line",
        ("dropped", "doubled", "another that occurs", *ORDER),
        "a control fails by any record that is double: one more or one less of them is the same offence",
    ),
    Harmless(
        "controls/*/sent.jsonl", "*.offset|*.partition|*.topic", ANY, "a control has no chain that would read places"
    ),
)
