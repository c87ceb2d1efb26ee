"""Abandoning an epoch on the real broker, store and database: exact afterwards, or refused and nothing changed."""

from __future__ import annotations

import pytest

from effectively_once.errors import ControlError, SinkError, StaleDriverError, VersionError
from effectively_once.ledger import interventions
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.objects import run
from effectively_once.sinks.publish import FencedError, Published
from tests.stack.life_cycle import Command, documented
from tests.stack.lines import MENDED, LineDriver, Lines

pytestmark = pytest.mark.stack

LOOK = "effectively-once abandon settings.json"
ABANDON = "effectively-once abandon settings.json --yes"


def declared(lines: Lines, epochs: int = 2) -> tuple[LineDriver, Declaration]:
    """Publish so many epochs and declare the one after."""
    driver = lines.start("first")
    driver.run(epochs)
    return driver, driver.declare()


def test_an_epoch_of_which_nothing_is_visible_is_abandoned_and_another_version_publishes_its_input(
    lines: Lines, command: Command
) -> None:
    """Whether or not the pipeline is paused; without --yes it is only told."""
    declared(lines)
    with pytest.raises(VersionError, match="effectively-once abandon"):
        lines.start("mended", MENDED)
    assert command("effectively-once pause settings.json")[0] == 0
    before = lines.head()
    code, told = command(documented(LOOK))
    assert (code, told[-1]) == (0, "nothing was changed; stop every driver, then run this again with --yes")
    assert (lines.head(), set(lines.marks().values())) == (before, {1})
    code, told = command(documented(ABANDON))
    assert (code, told[-1]) == (0, "epoch 2 is abandoned; the next driver declares epoch 3 over its input"), told
    assert set(lines.marks().values()) == {2}
    code, told = command(ABANDON)
    assert (code, told) == (0, ["epoch 2 is abandoned and recorded; nothing is left to do"])
    lines.start("mended", MENDED).run(3)
    lines.assert_exact(5)
    assert [record.epoch for record in lines.head().tail] == list(range(6))


def test_the_first_epoch_can_be_abandoned(lines: Lines, command: Command) -> None:
    declared(lines, 0)
    assert command(ABANDON)[0] == 0
    lines.start("mended", MENDED).run(2)
    lines.assert_exact(2)


@pytest.mark.parametrize(
    ("sink", "shard", "named"),
    [
        pytest.param("accepted", 1, "sink accepted shard 1", marks=pytest.mark.slow),
        ("rows", 0, "sink rows shard 0"),
        ("archive", 0, "sink archive"),
    ],
)
def test_an_epoch_that_is_visible_anywhere_is_refused_and_its_version_finishes_it(
    lines: Lines, command: Command, sink: str, shard: int, named: str
) -> None:
    driver, pinned = declared(lines)
    driver.publish(sink, shard, pinned)
    before, marks = lines.head(), lines.marks()
    code, told = command(ABANDON)
    assert code == SinkError.exit_code
    assert f"epoch 2 is visible in {named} (" in told[-1]
    assert "The version that declared it has to finish it: wheel aaaaaaaaaaaa." in told[-1]
    assert (lines.head(), lines.marks()) == (before, marks)
    lines.start("again").run(1)
    lines.assert_exact(4)


@pytest.mark.parametrize(
    ("after", "then"),
    [
        pytest.param(1, "driver", marks=pytest.mark.slow),
        (5, "again"),
        (6, "driver"),
        pytest.param(7, "again", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_one_is_finished_by_another_or_by_any_driver(
    lines: Lines, command: Command, monkeypatch: pytest.MonkeyPatch, after: int, then: str
) -> None:
    """Interrupted after so many publications of nothing: of Kafka shards, of tables, of files."""
    declared(lines)
    seen: list[str] = []

    def interrupting(line: str) -> None:
        seen.append(line)
        if len([one for one in seen if "shows nothing of it" in one]) == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("effectively_once.operate.life_cycle._say", interrupting)
        with pytest.raises(KeyboardInterrupt):
            command(ABANDON)
    assert list(lines.marks().values()).count(2) == min(after, 6)
    if then == "again":
        code, told = command(ABANDON)
        assert (code, len([line for line in told if line.endswith("showed nothing of it before")])) == (0, after)
    lines.start("mended", MENDED).run(2)
    lines.assert_exact(4)


def test_a_driver_that_wakes_up_afterwards_publishes_nothing_of_it(lines: Lines, command: Command) -> None:
    """With what it kept open, or anew; before and after the next epoch is published."""
    driver, pinned = declared(lines)
    assert command(ABANDON)[0] == 0
    everywhere = (("accepted", 0), ("rows", 1), ("archive", 0))
    for _ in ("kept", "opened anew"):
        for sink, shard in everywhere:
            with pytest.raises((FencedError, SinkError)):
                driver.publish(sink, shard, pinned)
        driver.sinks.clear()
    with pytest.raises(StaleDriverError):
        run(interventions.abandon(lines.layout, driver.held), lines.store)
    lines.start("mended", MENDED).run(1)
    for sink, shard in everywhere[:2]:
        assert driver.publish(sink, shard, pinned)[1] is Published.BEFORE
    with pytest.raises(SinkError):
        driver.publish("archive", 0, pinned)
    lines.start("mended again", MENDED).run(1)
    lines.assert_exact(4)


def test_a_transaction_that_a_driver_left_open_is_ended(lines: Lines, command: Command) -> None:
    """With rows of the epoch in it: nobody ever sees them, and readers do not wait."""
    driver, pinned = declared(lines)

    def stop(what: str) -> None:
        if what == "transaction_open":
            raise KeyboardInterrupt

    driver.sinks["accepted", 0].announce = stop
    with pytest.raises(KeyboardInterrupt):
        driver.publish("accepted", 0, pinned)
    code, told = command(ABANDON)
    assert code == 0, told
    lines.start("mended", MENDED).run(2)
    lines.assert_exact(4)


def test_without_a_declared_epoch_there_is_nothing_to_abandon(lines: Lines, command: Command) -> None:
    assert command(ABANDON)[0] == ControlError.exit_code
    lines.start("first").run(1)
    before = lines.head()
    code, told = command(ABANDON)
    assert (code, "no epoch is declared" in told[-1], lines.head()) == (ControlError.exit_code, True, before)


def test_a_job_that_lacks_a_sink_of_before_abandons_nothing(lines: Lines, command: Command) -> None:
    """Nobody would look whether that sink shows the epoch."""
    declared(lines)
    before = lines.head()
    lines.use("narrow")
    code, told = command(ABANDON)
    assert code == SinkError.exit_code
    assert "this job has no sinks archive, rows" in told[-1]
    assert lines.head() == before
