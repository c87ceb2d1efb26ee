"""What nobody can tell apart from what it was."""

from __future__ import annotations

from typing import Any

from tests.tampered.altered import Altered
from tests.tampered.harmless.entry import HISTORIES, ORDER, Harmless

DOCUMENTS = "observed/chain.json|observed/quiet.json|observed/epilogue.json|manifest.json|controls/*/manifest.json"


def _is_null(altered: Altered) -> bool:
    return altered.value is None


def _reads_the_same(altered: Altered) -> bool:
    return type(altered.value) in (int, float, bool)


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


ALIKE: tuple[Harmless, ...] = (
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
)
