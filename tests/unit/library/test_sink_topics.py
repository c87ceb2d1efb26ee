"""Topics of sinks are the ones that the chain knows, and progress topics keep their marks (R10)."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from effectively_once.errors import SinkError
from effectively_once.ledger import chain
from effectively_once.ledger.objects import run
from effectively_once.ledger.records import Head
from effectively_once.sink_topics import refuse_expiring, same_sinks
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, SETTINGS, advanced, taken

OURS = {"clicks.accepted": "one", "clicks.accepted.progress": "two"}


def head(recorded: int = 3, **topics: str) -> Head:
    return Head(
        pipeline="clicks", generation=1, owner="o", settings={}, last_recorded=recorded,
        sink_topics={f"clicks.{name}": identity for name, identity in topics.items()},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("held", "fits"),
    [
        (head(accepted="one"), True),
        (head(accepted="other"), False),
        (head(-1, accepted="other"), True),
        (head(), True),
        (head(removed="other"), True),
    ],
    ids=["the same", "made anew", "made anew before the first epoch", "of an older version", "of no sink any more"],
)
def test_topics_of_sinks_are_those_that_the_chain_knows(held: Head, fits: bool) -> None:
    """Marks alone do not tell: rows that were published before are gone with their topic."""
    refused = pytest.raises(SinkError, match=r"deleted and created again: its id was other and is one .topic clicks")
    with nullcontext() if fits else refused:
        same_sinks(held, OURS)


def test_a_start_pins_the_topics_and_an_operators_command_leaves_them() -> None:
    """A head that an older version wrote has none, and is written as it was until then."""
    store = MemoryStore()
    older = advanced(store, taken(store), 2).head
    assert b"sink_topics" not in older.encoded()
    started = run(chain.take_over(LAYOUT, "driver", SETTINGS, sink_topics=OURS), store).head
    assert chain.decoded(started.encoded(), LAYOUT.head).sink_topics == OURS
    assert run(chain.take_over(LAYOUT, "operator", {}), store).head.sink_topics == OURS


@pytest.mark.parametrize(("policy", "keeps"), [("compact", True), ("delete", False), ("compact,delete", False)])
def test_a_progress_topic_that_deletes_marks_in_time_is_refused(policy: str, keeps: bool) -> None:
    with nullcontext() if keeps else pytest.raises(SinkError, match=f"cleanup.policy={policy}, so marks would expire"):
        refuse_expiring("clicks.accepted.progress", policy)
