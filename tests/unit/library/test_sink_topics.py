"""Topics of sinks are the ones that the chain knows, and progress topics keep their marks (R10)."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToTable
from effectively_once.driver import preflight
from effectively_once.driver.preflight import Preflight
from effectively_once.driver.sink_topics import refuse_expiring, same_sinks
from effectively_once.errors import SinkError, SourceError
from effectively_once.ledger import chain
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.objects import run
from effectively_once.pipeline.job import Job
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, SETTINGS, advanced, taken

OURS = {"clicks.accepted": "one", "clicks.accepted.progress": "two"}


def head(recorded: int = 3, **topics: str) -> Head:
    return Head(
        pipeline="clicks",
        generation=1,
        owner="o",
        settings={},
        last_recorded=recorded,
        sink_topics={f"clicks.{name}": identity for name, identity in topics.items()},
    )


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
    begun = run(chain.take_over(LAYOUT, "driver", SETTINGS, sink_topics=OURS), MemoryStore()).head
    assert begun.sink_topics == OURS
    store = MemoryStore()
    older = advanced(store, taken(store), 2).head
    assert b"sink_topics" not in older.encode()
    started = run(chain.take_over(LAYOUT, "driver", SETTINGS, sink_topics=OURS), store).head
    assert decode(started.encode(), LAYOUT.head).sink_topics == OURS
    assert run(chain.take_over(LAYOUT, "operator", {}), store).head.sink_topics == OURS


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        (
            "table clicks.orders",
            SinkError,
            r"the table was .* was ab and is 7 \(table clicks\.orders\)\. Put the "
            r"table .*`COMMENT ON TABLE \"clicks\".\"orders\" IS 'effectively-once ab';`",
        ),
        (
            "statements events.sources",
            SourceError,
            r"the topic was .* was ab and is 7 \(topic events\.sources\)\. "
            "What gateways had said is gone.* start it once without `sources`",
        ),
    ],
)
def test_so_are_tables_and_the_topic_of_statements(name: str, error: type[Exception], says: str) -> None:
    """Each with its own way out."""
    held = head().model_copy(update={"sink_topics": {name: "ab"}})
    same_sinks(held, {name: "ab"})
    same_sinks(held, {})
    with pytest.raises(error, match=says):
        same_sinks(held, {name: "7"})


def test_a_start_asks_for_the_ids_of_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"events.sources": "said"}
    source: Any = SimpleNamespace(
        topic_ids=lambda: {"events": "read"},
        statements_ids=lambda: said,
        topic_settings=dict,
        refuse_compacted=lambda _: None,
        warn_of_times=lambda _: None,
    )
    topics = SimpleNamespace(ids=lambda: OURS, refuse_expiring_marks=lambda: None, refuse_small=lambda _: None)
    looked: list[str] = []
    monkeypatch.setattr(preflight, "S3ObjectStore", lambda *_: SimpleNamespace(check=looked.append))
    monkeypatch.setattr(preflight, "SinkTopics", lambda *_: topics)
    monkeypatch.setattr("effectively_once.sinks.tables.check", lambda _, name, *__: f"of {name[1]}")
    job = Job(
        Pipeline(lambda frame: frame, pa.schema([("user", pa.string())]), rows=(ToTable("orders"),)),
        pipeline_settings(database="postgresql://h:1/d"),
    )
    store: Any = None
    assert Preflight(job, LAYOUT, store, source).surroundings() == {
        "events": "read",
        "statements events.sources": "said",
        "table clicks.orders": "of orders",
        **OURS,
    }
    assert [name.partition("/")[0] for name in looked] == [LAYOUT.pipeline], "it may not see what is beside its folder"


@pytest.mark.parametrize(("policy", "keeps"), [("compact", True), ("delete", False), ("compact,delete", False)])
def test_a_progress_topic_that_deletes_marks_in_time_is_refused(policy: str, keeps: bool) -> None:
    with nullcontext() if keeps else pytest.raises(SinkError, match=f"cleanup.policy={policy}, so marks would expire"):
        refuse_expiring("clicks.accepted.progress", policy)
