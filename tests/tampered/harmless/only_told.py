"""Figures and names: they are told, and no verdict rests on them."""

from __future__ import annotations

from tests.tampered.altered import Altered
from tests.tampered.harmless.entry import ANY, HISTORIES, LITTLE, Harmless
from tests.tampered.needed import by_no_fault


def _without_gateways(altered: Altered) -> bool:
    return not altered.row["settings"].get("gateways")


def _in_epilogue(altered: Altered) -> bool:
    rows = altered.rows
    return rows.index(altered.row) > [row.get("phase") for row in rows].index("epilogue")


ONLY_TOLD: tuple[Harmless, ...] = (
    Harmless("sent.jsonl|controls/*/sent.jsonl", "*.n", ANY, "position in the plan; a send is known by its coordinate"),
    Harmless(
        "sent.jsonl",
        "*.sent_at",
        (*LITTLE, "another that occurs"),
        "figures of waits are measured with it; it stays within the run, and before the publication",
    ),
    Harmless("controls/*/sent.jsonl", "*.sent_at", ANY, "waits are measured of the run alone, not of its controls"),
    Harmless(
        "observed/chain.json",
        "document.epochs[].catalog*|document.epochs[].ms*|document.epochs[].*.bytes",
        ANY,
        "figures of cost; no verdict rests on them",
    ),
    Harmless(
        "history.jsonl",
        "epoch published.ms*",
        ANY,
        "figures of time; of an epoch that was struck the total is compared, within a second",
    ),
    Harmless(
        "history.jsonl",
        "epoch published.repeat",
        ("flipped", "another that occurs"),
        "figure of repeats; no fault has it for its only effect",
        by_no_fault,
    ),
    Harmless("history.jsonl", "sent*", ANY, "progress of the sender; sent.jsonl has each send"),
    Harmless(
        HISTORIES,
        "fault.recovered_s|fault.replaced_s",
        ANY,
        "the injector's word; recovery is measured from the history",
    ),
    Harmless(HISTORIES, "fault.signal", ("dropped", "null"), "the kind says what was done"),
    Harmless(
        "history.jsonl",
        "phase|phase.*",
        ANY,
        "the phases of a fault; those that every run goes through are demanded, in their order",
    ),
    Harmless(
        "manifest.json|controls/*/manifest.json",
        "document.run|document.claim|document.settings.records|document.settings.faults",
        ANY,
        "told in reports as it was written; the claim is made of what the run showed, the sends are the truth",
    ),
    Harmless(
        "manifest.json",
        "document.versions.kafka_*|document.versions.minio|document.versions.aws_sdk",
        ANY,
        "of servers and jars, which no driver tells; lock files of the commit pin them",
    ),
    Harmless(
        "controls/*/manifest.json",
        "document.seed|document.started_at",
        ANY,
        "a control is known by the name of its run, which has another seed and start",
    ),
    Harmless(
        "manifest.json",
        "document.started_at",
        (*LITTLE, "dropped", "zero"),
        "a moment, within a minute of the run's name; zero says that none is known",
    ),
    Harmless(
        "manifest.json",
        "document.settings.hold_max_ms",
        ANY,
        "for how long a gateway is waited for; this run has none",
        _without_gateways,
    ),
    Harmless("manifest.json", "document.shows", ANY, "what a control is built to show; this run is none"),
    Harmless("manifest.json", "document.concurrent_reader", ANY, "what a reader saw is judged whatever is said of it"),
    Harmless(
        "history.jsonl",
        "driver started.settings",
        ("another that occurs",),
        "of a driver of the epilogue, the other of its two files: how much an epoch reads at most",
        _in_epilogue,
    ),
    Harmless(
        "observed/chain.json",
        "document.head.owner|document.head.floor|document.head.format",
        ANY,
        "of the protocol between drivers; the epochs, which it led to, are judged",
    ),
    Harmless(
        "observed/*",
        "line.object|seen.object",
        ANY,
        "where a row was read, for people; rows are compared by what they are, and by epoch",
    ),
)
