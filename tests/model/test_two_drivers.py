"""Two drivers on one pipeline, every interleaving: exact with all rules, whatever the sink is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.model.games import explored
from tests.model.rules import Pipeline

SHORT = (("a", 0), ("b", 0), ("a", 0))
KAFKA, TABLE, FILES = Pipeline(("kafka", "kafka")), Pipeline(("table", "table")), Pipeline(("files", "files"))
FILES_AND_KAFKA = Pipeline(("files", "kafka"))
KAFKA_SHARD, TABLE_SHARD = Pipeline(("kafka",)), Pipeline(("table",))
SHORT_KAFKA, SHORT_TABLE, SHORT_FILE = (Pipeline((kind,), SHORT, (1, 2)) for kind in ("kafka", "table", "files"))
# Two deltas are merged in the third epoch; in the fifth the floor passes them. A `b` comes late, a `c` twice in time.
STATE = Pipeline(("kafka",), (("a", 0), ("b", 0), ("c", 3), ("b", 0), ("c", 3)), (1, 2), recorded=False, fan=2)
# By the windows of ids the floor passes the `a` in the fourth epoch; the fifth closes the long one that holds it.
LONG = Pipeline(
    ("table", "table"),
    (("a", 0), ("b", 3), ("c", 3), ("d", 9), ("e", 9)),
    (1, 1),
    recorded=False,
    results=True,
    long=3,
)

SHORT_TABLES = Pipeline(("table", "table"), SHORT, (1, 2))
# One shard of the second step takes what both of the first one accepted.
TWO_STEPS = Pipeline(("kafka", "kafka", "kafka"), SHORT, (2, 3), recorded=False, results=True)
PLAIN_KAFKA, PLAIN_TABLE = (Pipeline((kind,), SHORT, (1, 2), recorded=False) for kind in ("kafka", "table"))
PLAIN_STEPS = Pipeline(("kafka", "kafka"), SHORT, (2, 3), recorded=False, results=True)

DELTA, SPAN = "model/deltas/ids/N/N.arrow", "model/deltas/ids/N/N-N.arrow"
OUTPUT, MANIFEST = "model/recorded/draw/N/N.arrow", "model/files/manifests/N.json"


@dataclass(frozen=True)
class Case:
    """An exploration, how many states it has at least, what it must come by, and how a replaced driver must end in it.

    How many there are is a fact of the protocol: a change of it that prunes or adds steps shows here.
    """

    name: str
    pipeline: Pipeline
    losses: int
    failures: int
    states: int
    meets: tuple[str, ...]
    ends: tuple[str, ...] = ("stale",)
    slow: bool = False
    deep: bool = False
    early: int = 0
    forgets: int = 0


COLLECTED = (f"Delete {OUTPUT} -> Gone", f"Put {OUTPUT} -> Refused", f"Get {OUTPUT} -> Found")
MERGED = (f"Get {SPAN} -> Found", f"Delete {SPAN} -> Gone", f"Delete {DELTA} -> Gone", f"Get {DELTA} -> Absent")
# It reads a part that was deleted; it runs a step anew whose output was deleted. No other claim may fail meanwhile.
MISSING, ANEW = ("a delta that the chain names is missing",), ("is published with digest",)
FENCED, REFUSED, UNKNOWN = ("Commit fenced",), ("Commit refused",), ("Commit unknown",)
MANIFEST_ONCE, MANIFEST_LOST = (f"Put {MANIFEST} -> Refused",), (f"Put {MANIFEST} -> Lost",)
PART = ("Read -> a part", "Read -> all")
CASES = [
    Case("kafka", KAFKA, 0, 0, 19_000, (*FENCED, *COLLECTED), ANEW, deep=True),
    Case(
        "kafka", KAFKA, 1, 0, 500_000, (*FENCED, *UNKNOWN, *COLLECTED, "Put model/head.json -> Lost"), ANEW, deep=True
    ),
    Case("short-kafka", SHORT_KAFKA, 0, 1, 268_000, FENCED, ANEW, deep=True),
    Case("table-shard", TABLE_SHARD, 1, 0, 105_000, (*REFUSED, *UNKNOWN), ANEW, deep=True),
    Case("table-shard", TABLE_SHARD, 0, 1, 185_000, REFUSED, ANEW, deep=True),
    Case("short-file", SHORT_FILE, 1, 0, 102_000, (*MANIFEST_ONCE, *MANIFEST_LOST), ANEW, deep=True),
    Case("files", FILES, 0, 1, 180_000, MANIFEST_ONCE, ANEW, deep=True),
    Case("state", STATE, 0, 0, 14_000, MERGED, MISSING),
    Case("state", STATE, 0, 1, 540_000, MERGED, MISSING, slow=True),
    Case("state", STATE, 1, 0, 440_000, (*MERGED, f"Put {SPAN} -> Lost"), MISSING, slow=True),
    Case("kafka-shard", KAFKA_SHARD, 0, 1, 360_000, FENCED, ANEW, slow=True),
    Case("kafka", KAFKA, 0, 1, 1_800_000, FENCED, ANEW, slow=True),
    Case("table", TABLE, 1, 0, 175_000, (*REFUSED, *UNKNOWN), ANEW, slow=True),
    Case("table", TABLE, 0, 1, 380_000, REFUSED, ANEW, slow=True),
    Case("files", FILES, 1, 0, 160_000, (*MANIFEST_ONCE, *MANIFEST_LOST), ANEW, slow=True),
    Case("files-and-kafka", FILES_AND_KAFKA, 1, 0, 340_000, MANIFEST_ONCE, ANEW, slow=True),
    Case("files-and-kafka", FILES_AND_KAFKA, 0, 1, 630_000, MANIFEST_ONCE, ANEW, slow=True),
    Case("short-kafka", SHORT_KAFKA, 2, 0, 1_400_000, (*FENCED, *UNKNOWN), slow=True),
    Case("short-table", SHORT_TABLE, 2, 0, 980_000, (*REFUSED, *UNKNOWN), slow=True),
    Case("short-file", SHORT_FILE, 2, 0, 1_500_000, MANIFEST_LOST, slow=True),
    Case("short-kafka", SHORT_KAFKA, 0, 0, 19_000, PART, ANEW, early=1),
    Case("short-tables", SHORT_TABLES, 0, 0, 23_000, PART, ANEW, deep=True, early=1),
    Case("files", FILES, 0, 0, 22_000, PART, ANEW, deep=True, early=1),
    Case("state", STATE, 0, 0, 60_000, (*PART, *MERGED), MISSING, deep=True, early=1),
    Case("two-steps", TWO_STEPS, 0, 0, 97_000, (*PART, *FENCED), deep=True, early=1),
    Case("short-kafka", SHORT_KAFKA, 0, 0, 15_000, FENCED, ANEW, deep=True, forgets=1),
    Case("short-kafka", SHORT_KAFKA, 1, 0, 360_000, (*FENCED, *UNKNOWN), ANEW, deep=True, forgets=1),
    Case("plain-kafka", PLAIN_KAFKA, 1, 0, 20_000, (*FENCED, *UNKNOWN)),
    Case("plain-kafka", PLAIN_KAFKA, 0, 1, 400_000, (*PART, *FENCED), slow=True, early=1),
    Case("short-table", SHORT_TABLE, 0, 1, 740_000, (*PART, *REFUSED), ANEW, slow=True, early=1),
    Case("long", LONG, 0, 0, 1_000, REFUSED, deep=True),
    Case("plain-steps", PLAIN_STEPS, 0, 1, 1_500_000, (*PART, *FENCED), slow=True, early=1),
]


def _cases() -> list[object]:
    return [
        pytest.param(
            case,
            id=f"{case.name}-{case.losses}-{case.failures}-{case.early}-{case.forgets}",
            marks=[pytest.mark.slow] * case.slow + [pytest.mark.deep] * case.deep,
        )
        for case in CASES
    ]


@pytest.mark.parametrize("case", _cases())
def test_two_drivers_in_any_order_publish_every_record_once(case: Case) -> None:
    """Bound: two drivers to their end, so many lost answers, failed tasks, early ends; then a third one alone."""
    found = explored(case.pipeline, losses=case.losses, failures=case.failures, early=case.early, forgets=case.forgets)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= case.states, "the exploration was cut short"
    assert not set(case.meets) - found.met, "the exploration is vacuous"
    assert all(any(end in how for how in found.ends) for end in case.ends), "the exploration is vacuous"
