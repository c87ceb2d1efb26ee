"""Sinks that are added to a pipeline which has published, on real servers: they begin with the next epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from effectively_once.errors import SinkError
from infra.embedded.postgres import PostgresServer
from infra.embedded.stack import EmbeddedStack
from tests.stack.life_cycle import documented
from tests.stack.lines import MENDED, ROWS, Lines

pytestmark = pytest.mark.stack


@pytest.fixture
def lines(stack: EmbeddedStack, database: PostgresServer, pipeline: str, tmp_path: Path) -> Lines:
    """Make a pipeline whose one sink is a topic."""
    return Lines(stack, database.url, pipeline, tmp_path, job="narrow")


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_table_and_files_that_are_added_show_what_is_published_from_then_on(lines: Lines, epochs: int) -> None:
    """And the sink that was there goes on; `create` may be run again."""
    documented("effectively-once create settings.json")
    lines.start("first").run(epochs)
    lines.use("pipeline")
    told = lines.create()
    assert told[-2:] == [f"sink {name} is new, it begins with epoch {epochs}" for name in ("rows", "archive")]
    before = lines.head(), lines.marks()
    assert lines.create()[-1].startswith("sink archive is new"), "no epoch was published to it yet"
    assert (lines.head(), lines.marks()) == before
    lines.start("second", MENDED).run(2)
    assert "is new" not in lines.create()[-1]
    since = list(range(epochs * ROWS, (epochs + 2) * ROWS))
    assert {sink: lines.visible(sink) for sink in ("rows", "archive")} == {"rows": since, "archive": since}
    assert lines.visible("accepted") == list(range((epochs + 2) * ROWS))


def test_a_topic_that_is_added_shows_what_is_published_from_then_on(lines: Lines) -> None:
    lines.use("files_alone")
    lines.create()
    lines.start("first").run(2)
    lines.use("pipeline")
    lines.create()
    lines.start("second", MENDED).run(1)
    assert lines.visible("accepted") == list(range(2 * ROWS, 3 * ROWS))
    assert lines.visible("archive") == list(range(3 * ROWS))


def test_before_the_first_epoch_nothing_is_added(lines: Lines) -> None:
    driver = lines.start("first")
    lines.use("pipeline")
    lines.create()
    assert set(lines.marks().values()) == {-1}
    driver.of.start("second").run(1)
    lines.assert_exact(1)


def test_while_an_epoch_is_declared_without_them_none_are_added(lines: Lines) -> None:
    """They would have to be published to in an epoch of a version that does not know them."""
    driver = lines.start("first")
    driver.run(1)
    driver.declare()
    lines.use("pipeline")
    with pytest.raises(SinkError, match="sinks rows, archive are new, and a driver publishes epochs without them"):
        lines.create()
    lines.use("narrow")
    lines.start("again").run(0)
    lines.use("pipeline")
    lines.create()
    lines.start("second", MENDED).run(1)
    assert lines.visible("rows") == list(range(2 * ROWS, 3 * ROWS))


def test_without_create_a_new_sink_is_refused_and_with_it_one_that_lags_is_too(lines: Lines) -> None:
    """A driver of the former version that goes on leaves it behind; `create` again brings it up."""
    lines.start("first").run(1)
    lines.use("files_alone")
    lines.create()
    lines.use("narrow")
    lines.start("again").run(1)
    lines.use("files_alone")
    with pytest.raises(SinkError, match=r"progress mark -1 lies outside the chain's 1 to 1"):
        lines.start("second", MENDED)
    lines.create()
    lines.start("second", MENDED).run(1)
    assert lines.visible("archive") == list(range(2 * ROWS, 3 * ROWS))


def test_a_sink_that_is_removed_stays_as_it_was_and_lags_when_it_comes_back(lines: Lines) -> None:
    lines.use("pipeline")
    lines.create()
    lines.start("first").run(1)
    lines.use("narrow")
    lines.start("second", MENDED).run(1)
    assert lines.visible("accepted") == list(range(2 * ROWS))
    lines.use("pipeline")
    assert lines.visible("rows") == list(range(ROWS))
    with pytest.raises(SinkError, match=r"progress mark 0 lies outside the chain's 1 to 1"):
        lines.start("third")
    lines.create()
    lines.start("third").run(1)
    assert lines.visible("rows") == [*range(ROWS), *range(2 * ROWS, 3 * ROWS)]


def test_a_sink_that_the_last_epoch_was_published_to_gets_no_mark(lines: Lines) -> None:
    """Its marks are lost, and what it showed may be: that is no new sink."""
    lines.use("pipeline")
    lines.create()
    lines.start("first").run(1)
    lines.lose_marks("rows")
    with pytest.raises(SinkError, match="lies outside"):
        lines.create()
        lines.start("second")
    assert {number for name, number in lines.marks().items() if name.startswith("rows")} == {-1}
