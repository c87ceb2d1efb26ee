"""What is judged by something else than the field."""

from __future__ import annotations

from tests.tampered.altered import Altered
from tests.tampered.harmless.entry import ANY, LITTLE, Harmless


def _refused(altered: Altered) -> bool:
    return altered.row.get("kind") == "malformed" or altered.row.get("reason") not in (None, "", "late")


JUDGED_OTHERWISE: tuple[Harmless, ...] = (
    Harmless(
        "sent.jsonl|controls/*/sent.jsonl",
        "*.id|*.user|*.event_time_ms|*.payload|*.crc",
        ANY,
        "of a record that has to be refused the bytes are compared, not what its author meant",
        _refused,
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].sinks.*.digest",
        ANY,
        "nobody recomputes it: oracle 1 compares the rows themselves, one by one",
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].sinks|document.epochs[].sinks.*",
        ("another that occurs",),
        "of another epoch with as many rows; but for their number nothing of it is judged",
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].deltas.user_counts*",
        ANY,
        "counts on their way; oracles 1 and 2 compare what came of them",
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].deltas.ids.*.inline",
        ANY,
        "a copy of rows whose number and digest are compared",
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].previous_watermark_ms|document.epochs[].merged*",
        ANY,
        "the watermark stands in the record of the epoch before, where it is judged; merges change no row",
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].batch_id|document.epochs[].lineage",
        ANY,
        "Spark's numbers; they may not go back, and lineages are judged where the epilogue restarts",
    ),
    Harmless(
        "observed/epilogue.json",
        "document.boundary.*|document.closing.*",
        LITTLE,
        "between the two ends is a mark of a transaction, or an epoch without rows: no row is on another side",
    ),
    Harmless(
        "observed/epilogue.json",
        "document.closing.*.dead_letter*",
        ANY,
        "letters of copies are due before and after; each is known by its source, and ends only grow",
    ),
    Harmless(
        "observed/epilogue.json",
        "document.steps[].after_epoch",
        LITTLE,
        "both epochs are of the lineage that the step tells, and copies enough are dropped after each",
    ),
    Harmless(
        "observed/quiet.json", "document.at", LITTLE, "a moment; it stays behind the last word of the last driver"
    ),
    Harmless(
        "observed/*.concurrent.jsonl",
        "reader.t|seen.t",
        (*LITTLE, "another that occurs"),
        "a moment; the reader still began before and ended after all faults, and looked soon",
    ),
)
