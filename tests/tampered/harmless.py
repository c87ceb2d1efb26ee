"""What may be altered without anybody objecting: in which field of which file, how, and why no claim rests on it.

An alteration that is not listed has to be caught. One that is listed and caught is well, too: an entry of which each
alteration is caught is stale, and the command says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.tampered.alterations import Alteration
from tests.tampered.altered import Altered
from tests.tampered.bases import OF_GATEWAYS
from tests.tampered.needed import (
    by_no_fault,
    by_no_fault_that_names,
    by_no_fault_that_struck,
    names_the_same_process,
    says_nothing_alone,
    since_others_announce,
    with_moments_on_their_side,
    without_another_that_names_one,
)
from tests.tampered.places import Evidence, matches

When = Callable[[Altered], bool]
ANY: tuple[str, ...] = ()


@dataclass(frozen=True)
class Harmless:
    """One entry.

    Attributes:
        files, fields: names; `*` is for anything, `|` between alternatives.
        operations: without any: all.
        why: nobody has to object.
        when: what of the run makes it harmless, beyond the place; None: nothing.
        run: name of the only run of which it is; None: of any.

    """

    files: str
    fields: str
    operations: tuple[str, ...]
    why: str
    when: When | None = None
    run: str | None = None

    def __str__(self) -> str:
        return f"{self.files}: {self.fields}: {', '.join(self.operations) or 'whatever is done'}"

    def covers(self, alteration: Alteration, evidence: Evidence) -> bool:
        """Whether an alteration is one of these."""
        if self.run not in (None, alteration.run):
            return False
        if self.operations and alteration.operation not in self.operations:
            return False
        if not matches(self.files, alteration.file) or not matches(self.fields, alteration.field):
            return False
        if self.when is None or alteration.place is None:
            return self.when is None
        return self.when(Altered(alteration, evidence))


def _is_null(altered: Altered) -> bool:
    return altered.value is None


def _reads_the_same(altered: Altered) -> bool:
    return type(altered.value) in (int, float, bool)


def _refused(altered: Altered) -> bool:
    return altered.row.get("kind") == "malformed" or altered.row.get("reason") not in (None, "", "late")


def _of_a_lag(altered: Altered) -> bool:
    return bool(altered.row.get("kind") == "held_back")


def _but_for_shown(altered: Altered) -> bool:
    """Whether a clock is another one only in what partitions have shown."""
    now: Any = altered.gained[0]
    for step in altered.steps:
        now = now[step]
    return {**now, "shown": None} == {**altered.value, "shown": None}


def _no_rows(altered: Altered) -> bool:
    return _is_without_rows(altered.value)


def _is_without_rows(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return value["rows"] == 0 if "rows" in value else all(_is_without_rows(below) for below in value.values())


def _is_default(altered: Altered) -> bool:
    return altered.value in ("events", 60_000, "text", [])


def _is_empty_range(altered: Altered) -> bool:
    value = altered.value
    return isinstance(value, list) and value[0] == value[1]


def _is_empty(altered: Altered) -> bool:
    return not altered.value


def _is_empty_list(altered: Altered) -> bool:
    return bool(altered.value == [])


def _lists_no_faults(altered: Altered) -> bool:
    return not altered.row.get("faults")


def _without_gateways(altered: Altered) -> bool:
    return not altered.row["settings"].get("gateways")


def _in_epilogue(altered: Altered) -> bool:
    rows = altered.rows
    return rows.index(altered.row) > [row.get("phase") for row in rows].index("epilogue")


LITTLE = ("one more", "one less", "half more")
ORDER = ("swapped with the next",)
DOCUMENTS = "observed/chain.json|observed/quiet.json|observed/epilogue.json|manifest.json|controls/*/manifest.json"
HISTORIES = "history.jsonl|controls/*/history.jsonl"
HARMLESS: tuple[Harmless, ...] = (
    # What nobody can tell apart.
    Harmless("*", "*", ("field added",), "nobody asks for a field of this name; all that is asked for stands"),
    Harmless("*", "*", ("dropped",), "a field that is null is read as one that is missing", _is_null),
    Harmless(
        DOCUMENTS, "*", ("another type",), "a number or flag written as text is read as what it was", _reads_the_same
    ),
    Harmless("controls/*/manifest.json", "document.controls", ("dropped", "emptied"), "a control has none of its own"),
    Harmless(
        "observed/chain.json",
        "document.epochs[].ranges.events.*",
        ("dropped",),
        "a partition of which the epoch read nothing",
        _is_empty_range,
    ),
    Harmless(
        "observed/global_counts.concurrent.jsonl",
        "seen.crcs",
        ("another type",),
        "an empty object names no rows, as an empty list does",
        _is_empty_list,
    ),
    Harmless(
        "history.jsonl",
        "driver started.t",
        ("far less", "zero"),
        "of the first driver; nothing stands before it, and the run's length, which it changes, is but told",
    ),
    Harmless("manifest.json", "document.controls", ("dropped",), "none, as where none is named", _is_empty_list),
    Harmless(
        "observed/chain.json",
        "document.epochs[].clock.idle|document.epochs[].clock.released",
        ("dropped",),
        "nobody, as where nobody is named",
        _is_empty,
    ),
    Harmless(
        "manifest.json",
        "document.faults_planned",
        ("one less", "zero", "half more"),
        "of a run that lists no sorts: what hit is judged, and the least that the claim needs",
        _lists_no_faults,
    ),
    Harmless(
        "manifest.json",
        "document.faults",
        ("dropped", "emptied"),
        "how many have to hit is said beside it, and each is judged; without the list no sort is asked for",
    ),
    Harmless(
        HISTORIES,
        "fault.*|driver *.pid|epoch *.driver",
        ("another type",),
        "a number or flag written as text is read as what it was",
        _reads_the_same,
    ),
    Harmless(
        "sent.jsonl|controls/*/sent.jsonl",
        "*",
        ORDER,
        "sends are known by topic, partition and offset; the order of their lines says nothing",
    ),
    Harmless(
        "observed/global_counts.jsonl|observed/accepted_rows.jsonl",
        "*",
        ORDER,
        "rows of files and tables have no order",
    ),
    Harmless(
        "observed/accepted.jsonl|observed/dead_letter.jsonl|observed/user_counts.jsonl",
        "*",
        ORDER,
        "two rows of different partitions; those of one have to be in the order of their offsets",
    ),
    Harmless("observed/global_counts.concurrent.jsonl", "seen.crcs[]", ORDER, "rows of a manifest have no order"),
    Harmless(
        "*.concurrent.jsonl",
        "seen|reader",
        (*ORDER, "doubled"),
        "the lines are of one moment or of different partitions, or the reader began twice: it saw the same",
    ),
    Harmless(HISTORIES, "*", ORDER, "what came first is told by the times in the lines, of which these stand"),
    Harmless(
        "observed/quiet.json", "document.partitions[]", (*ORDER, "doubled"), "partitions are known by their names"
    ),
    Harmless(
        "observed/epilogue.json",
        "document.steps[]",
        ORDER,
        "the steps name their epochs, which say in which order they were",
    ),
    Harmless(
        "manifest.json|controls/*/manifest.json",
        "document.settings.sinks[]|document.settings.gateways[]|document.controls[]|document.faults[]",
        (*ORDER, "doubled"),
        "a list of names, each of which is judged; twice is no more and no less",
    ),
    Harmless(
        "observed/chain.json",
        "document.epochs[].sinks*|document.epochs[].deltas*",
        ("dropped", "emptied"),
        "a shard that an epoch wrote no row to may be left out, and a sink that has none else",
        _no_rows,
    ),
    Harmless(
        "manifest.json",
        "document.settings.topic|document.settings.window_ms|document.schemas.*",
        ("dropped",),
        "it is the one that is meant where none is named",
        _is_default,
    ),
    # Figures: they are told, and no verdict rests on them.
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
    # Names.
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
    # What is judged otherwise.
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
    # Witnesses and announcements that no fault needs.
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
    # Gateways: what an epoch has of a word is judged, and its ends by what was acknowledged.
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
        "asked.jsonl", "line.words|line.driver", ANY, "words for people, of a command that answered; a log's name"
    ),
    # Controls: each is there to show one offence, by its sink alone.
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
"""All that may be altered."""
