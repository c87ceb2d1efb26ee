"""What every sink promises (R4, R8), on real servers: an epoch's rows become visible together, once, or not at all."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Barrier, Timer

import pytest

from effectively_once.errors import AccessError, SinkError, UnreachableError
from effectively_once.sinks.publish import FencedError, Published
from infra.embedded.process import ServerError, wait_for
from tests.spark.held import Held, kill
from tests.stack.faulty_link import Fault, FaultyLink
from tests.stack.modules import start_module
from tests.stack.sinks.adapter import Adapter

pytestmark = pytest.mark.stack

CHECKOUT = Path(__file__).parents[3]
SHOWN_S = 10.0
BOUND_S = 15.0
"""A sink that was told to wait for 2 s asks for a few things before it gives up."""


def ids(*epochs: int, number: int = 3) -> list[str]:
    """Ids of the rows of epochs."""
    return [f"e{epoch}-r{n}" for epoch in epochs for n in range(number)]


def shows(adapter: Adapter, expected: list[str]) -> None:
    """Assert what is visible. A broker answers a commit a moment before readers of committed records see it."""
    with suppress(ServerError):
        wait_for("the rows", SHOWN_S, lambda: adapter.ids() == expected)
    assert adapter.ids() == expected


def needs(adapter: Adapter, case: str) -> None:
    """Leave out, with its reason, a case that has no meaning for the sink."""
    if case in adapter.without:
        pytest.skip(f"{adapter.place.kind}: {adapter.without[case]}")


def test_published_rows_are_visible_once(adapter: Adapter) -> None:
    """One epoch after another, one of them empty."""
    sink = adapter.sink()
    for epoch, content in enumerate((ids(0), [], ids(2))):
        rows, published = sink.publish(epoch, 1, adapter.rows(content))
        assert (rows.rows, published) == (len(content), Published.NOW)
    shows(adapter, ids(0, 2))


def test_the_reader_of_this_suite_sees_doubles(adapter: Adapter) -> None:
    """The negative control: the same rows under another epoch are rows again. No key of a table hides them."""
    sink = adapter.sink()
    for epoch in range(2):
        sink.publish(epoch, 1, adapter.rows(ids(0)))
    shows(adapter, sorted(ids(0, 0)))


@pytest.mark.parametrize("content", [ids(0), []], ids=["rows", "empty"])
def test_a_repeat_is_a_no_op(adapter: Adapter, content: list[str]) -> None:
    """By the same publisher and by others, of this generation and the next, in any order of rows."""
    sink = adapter.sink()
    first, _ = sink.publish(0, 1, adapter.rows(content))
    for repeater, generation in ((sink, 1), (adapter.sink(), 1), (adapter.sink(), 2)):
        shuffled = random.Random(7).sample(content, len(content))
        again, when = repeater.publish(0, generation, adapter.rows(shuffled))
        # How long a file is depends on the order of its rows: its pages have checksums.
        assert (again.rows, again.digest, when) == (first.rows, first.digest, Published.BEFORE)
    shows(adapter, content)


@pytest.mark.parametrize(
    "other",
    [[], ids(0, number=2), ids(0, number=4), ids(1), [*ids(0, number=2), "e0-r1"]],
    ids=["none", "fewer", "more", "others", "one twice"],
)
def test_a_repeat_with_other_content_is_refused(adapter: Adapter, other: list[str]) -> None:
    """The digest tells, and nothing is published."""
    adapter.sink().publish(0, 1, adapter.rows(ids(0)))
    with pytest.raises(SinkError, match=r"epoch 0 is published with digest .*its repeat has .*deterministic"):
        adapter.sink().publish(0, 2, adapter.rows(other))
    shows(adapter, ids(0))


def test_a_repeat_with_another_partitioning_is_refused(adapter: Adapter) -> None:
    """With another number of shards this one gets rows that were another's."""
    needs(adapter, "other_partitioning")
    epoch = [f"user{n}" for n in range(30)]
    two, three = ([user for n, user in enumerate(epoch) if n % shards == 1] for shards in (2, 3))
    adapter.sink().publish(0, 1, adapter.rows(two))
    with pytest.raises(SinkError, match="epoch 0 is published with digest"):
        adapter.sink().publish(0, 2, adapter.rows(three))
    shows(adapter, sorted(two))


def test_an_epoch_older_than_the_last_is_not_published_again(adapter: Adapter) -> None:
    """A task that comes very late does nothing."""
    sink = adapter.sink()
    for epoch in range(3):
        sink.publish(epoch, 1, adapter.rows(ids(epoch)))
    assert adapter.sink().publish(1, 1, adapter.rows(ids(1)))[1] is Published.BEFORE
    shows(adapter, ids(0, 1, 2))


def test_a_publisher_that_was_overtaken_within_its_generation_doubles_nothing(adapter: Adapter) -> None:
    """A task was repeated by another executor: the first one's epoch before last is all that it knows of."""
    first, other = adapter.sink(), adapter.sink()
    first.publish(0, 1, adapter.rows(ids(0)))
    other.publish(1, 1, adapter.rows(ids(1)))
    with suppress(FencedError):
        assert first.publish(1, 1, adapter.rows(ids(1)))[1] is Published.BEFORE
    assert first.publish(1, 1, adapter.rows(ids(1)))[1] is Published.BEFORE
    shows(adapter, ids(0, 1))


def test_a_stale_generation_is_refused(adapter: Adapter) -> None:
    """The newer driver has opened the shard and published nothing yet."""
    needs(adapter, "fencing")
    stale, new = adapter.sink(), adapter.sink()
    stale.publish(0, 1, adapter.rows(ids(0)))
    assert new.publish(0, 2, adapter.rows(ids(0)))[1] is Published.BEFORE
    with pytest.raises(FencedError):
        stale.publish(1, 1, adapter.rows(ids(1)))
    shows(adapter, ids(0))
    assert new.publish(1, 2, adapter.rows(ids(1)))[1] is Published.NOW
    shows(adapter, ids(0, 1))


def test_a_stale_generation_publishes_at_most_what_is_declared(adapter: Adapter) -> None:
    """Whether it is refused or not: the rows are there once, and other rows of it are refused afterwards."""
    stale, new = adapter.sink(), adapter.sink()
    stale.publish(0, 1, adapter.rows(ids(0)))
    new.publish(0, 2, adapter.rows(ids(0)))
    try:
        assert stale.publish(1, 1, adapter.rows(ids(1)))[1] is Published.NOW
        assert not adapter.fences
    except FencedError:
        assert adapter.fences
    new.publish(1, 2, adapter.rows(ids(1)))
    with pytest.raises(SinkError, match="epoch 1 is published with digest"):
        stale.publish(1, 1, adapter.rows(ids(9)))
    shows(adapter, ids(0, 1))


@pytest.mark.parametrize(("moment", "seen"), [("before", ids(0)), ("inside", ids(0)), ("after", ids(0, 1))])
def test_a_publisher_killed_leaves_all_of_an_epoch_or_nothing(
    adapter: Adapter, tmp_path: Path, moment: str, seen: list[str]
) -> None:
    """SIGKILL before, inside and after publishing; another process repeats the epoch."""
    adapter.sink().publish(0, 1, adapter.rows(ids(0)))
    held = Held(tmp_path / "points")
    held.folder.mkdir()
    held.ask(**adapter.points[moment])
    words = json.dumps(asdict(adapter.place)), "1", json.dumps(ids(1))
    child = start_module("sinks.publisher", *words, log=tmp_path / "log", held=held)
    try:
        kill(held.wait(child))
    finally:
        child.kill()
    shows(adapter, seen)
    expected = Published.BEFORE if moment == "after" else Published.NOW
    sink = adapter.sink()
    assert sink.publish(1, 2, adapter.rows(ids(1)))[1] is expected
    sink.publish(2, 2, adapter.rows(ids(2)))
    shows(adapter, ids(0, 1, 2))


@pytest.mark.parametrize("attempt", range(3))
def test_of_two_drivers_that_publish_at_once_one_set_of_rows_is_visible(adapter: Adapter, attempt: int) -> None:
    """The stale one ends when it is fenced, as head tells it to; the other goes on."""
    together = Barrier(2)

    def drive(generation: int) -> Published | None:
        sink = adapter.sink()
        together.wait(30)
        for _ in range(50):
            try:
                return sink.publish(0, generation, adapter.rows(ids(0)))[1]
            except FencedError:
                if generation == 1:
                    return None
        raise TimeoutError("fenced again and again by a driver that has ended")

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(drive, (1, 2)))
    assert results.count(Published.NOW) == 1
    assert results[1] is not None
    shows(adapter, ids(0))


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.CUT, Fault.REFUSE], ids=lambda fault: fault.name.lower())
def test_a_commit_without_an_answer_doubles_and_loses_nothing(
    adapter: Adapter, link: FaultyLink, impatient: None, fault: Fault
) -> None:
    """Its answer is lost until the sink's time-out, or with the connection; or the connection was cut before it."""
    ended: list[Timer] = []

    def begin(after: bytes) -> None:
        if not ended:
            link.begin(fault, after)
            ended.append(Timer(adapter.heal_after_s(fault), link.heal))
            ended[0].start()

    first = adapter.sink()
    first.publish(0, 1, adapter.rows(ids(0)))
    hits = link.hits
    sink = adapter.sink(adapter.at_commit(begin))
    try:
        sink.publish(1, 1, adapter.rows(ids(1)))
    finally:
        ended[0].join()
    assert link.hits > hits
    shows(adapter, ids(0, 1))
    assert sink.publish(1, 1, adapter.rows(ids(1)))[1] is Published.BEFORE
    assert sink.publish(2, 1, adapter.rows(ids(2)))[1] is Published.NOW
    shows(adapter, ids(0, 1, 2))


@pytest.mark.parametrize("fault", [Fault.HOLD, Fault.REFUSE], ids=["slow", "failing"])
def test_a_server_that_is_too_slow_or_fails_ends_the_sink_in_bounded_time(
    adapter: Adapter, link: FaultyLink, impatient: None, fault: Fault
) -> None:
    """With a name; when the server is back the sink publishes the epoch."""
    sink = adapter.sink()
    sink.publish(0, 1, adapter.rows(ids(0)))
    began = time.monotonic()
    with link.fault(fault), pytest.raises(UnreachableError, match="does not answer"):
        sink.publish(1, 1, adapter.rows(ids(1)))
    assert time.monotonic() - began < BOUND_S
    sink.publish(1, 1, adapter.rows(ids(1)))
    assert adapter.sink().publish(1, 1, adapter.rows(ids(1)))[1] is Published.BEFORE
    shows(adapter, ids(0, 1))


def test_what_the_sink_needs_and_is_not_there_is_named(adapter: Adapter, impatient: None) -> None:
    """At once, with what to do."""
    sink, says = adapter.missing()
    with pytest.raises((SinkError, AccessError), match=says) as refused:
        sink.publish(0, 1, adapter.rows(ids(0)))
    assert "\n" not in str(refused.value)


def test_a_table_with_other_columns_is_named(adapter: Adapter) -> None:
    """Before a row is sent."""
    needs(adapter, "other_columns")
    says = adapter.other_columns()
    with pytest.raises(SinkError, match=says):
        adapter.sink().publish(0, 1, adapter.rows(ids(0)))


def test_a_column_is_added(adapter: Adapter) -> None:
    """Old rows are readable, new ones have it, and an epoch that the old version published is known to the new one."""
    adapter.sink().publish(0, 1, adapter.rows(ids(0)))
    adapter.add_column()
    assert adapter.sink().publish(1, 2, adapter.rows(ids(1), "NL"))[1] is Published.NOW
    shows(adapter, ids(0, 1))
    assert adapter.visible() == [(i, None) for i in ids(0)] + [(i, "NL") for i in ids(1)]
