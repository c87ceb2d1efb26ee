"""Pause, drain and resume on the real broker and the real store, with a driver that keeps to them."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer

from effectively_once.driver.control import Control, State, is_drained, reached_ranges, read
from effectively_once.errors import ControlError, SourceError, UnreachableError
from effectively_once.ledger import objects
from effectively_once.operate.control_commands import ends
from infra.embedded.ports import free_ports
from infra.embedded.process import wait_for
from tests.stack.clicks import Clicks
from tests.stack.life_cycle import TextCommand, documented, text_of_command

pytestmark = pytest.mark.stack

PAUSE = "effectively-once pause settings.json"
RESUME = "effectively-once resume settings.json"
DRAIN = "effectively-once drain settings.json --wait-s 60"
TURN_S = 0.05


@pytest.fixture
def command(clicks: Clicks, capsys: pytest.CaptureFixture[str]) -> TextCommand:
    return text_of_command(clicks.file, capsys)


class Obedient(threading.Thread):
    """A driver that looks at what is wished before it declares an epoch, and stops in order when it is drained."""

    def __init__(self, clicks: Clicks, owner: str) -> None:
        super().__init__(name=owner)
        self.steps: list[str] = []
        self.looks = 0
        self.stopping = threading.Event()
        self.turn = threading.Lock()
        self._clicks, self._control = clicks, Control(every_s=0.05)
        self._driver = clicks.start(owner)
        self.start()

    def run(self) -> None:
        store, layout = self._clicks.store, self._clicks.layout
        epochs = self._driver.steps()
        while not self.stopping.wait(TURN_S):
            with self.turn:
                wish, head = self._control.wish(store, layout), self._driver.held.head
                self.looks += 1
                if head.declared is None:
                    if wish.state is State.PAUSED:
                        continue
                    if is_drained(reached_ranges(head), wish):
                        break
                for step in epochs:
                    self.steps.append(step)
                    if step == "published":
                        break
                self._driver.stop()

    def epochs(self) -> int:
        return self.steps.count("published")


def put(clicks: Clicks, number: int) -> None:
    producer = Producer({"bootstrap.servers": clicks.settings.kafka_bootstrap})
    for _ in range(number):
        producer.produce(clicks.settings.topic, b"{}")
    assert producer.flush(20) == 0


def end(clicks: Clicks) -> int:
    return ends(clicks.settings)[clicks.settings.topic]["0"][1]


def test_a_drain_ends_where_a_committed_reader_ends_when_it_is_asked_for(clicks: Clicks) -> None:
    """Marks of transactions take offsets too, and a transaction that is open is not waited for."""
    assert ends(clicks.settings) == {clicks.settings.topic: {"0": (0, 0)}}
    bootstrap, name = clicks.settings.kafka_bootstrap, clicks.settings.topic
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(20)
    for expected in (11, 22):
        before = end(clicks)

        def reached_it(expected: int = expected) -> bool:
            return end(clicks) == expected

        producer.begin_transaction()
        for _ in range(10):
            producer.produce(name, b"{}")
        producer.flush(20)
        assert end(clicks) == before
        producer.commit_transaction(20)
        wait_for("the committed records", 20, reached_it)


def test_a_drained_pipeline_stops_and_one_that_is_resumed_goes_on(clicks: Clicks, command: TextCommand) -> None:
    put(clicks, 35)
    driver = Obedient(clicks, "first")
    code, told = command(documented(DRAIN))
    driver.join(30)
    assert (code, told.splitlines()[-1], driver.is_alive()) == (0, "drained", False), told
    head = clicks.head()
    assert reached_ranges(head)[clicks.settings.topic]["0"][1] >= 35
    assert head.declared is None
    again = Obedient(clicks, "second")
    again.join(30)
    assert (again.is_alive(), again.epochs()) == (False, 0), "drained already: it stops at once"
    code, told = command(documented(RESUME))
    assert (code, "a driver that stopped because of the drain has to be started again" in told) == (0, True)
    assert told.startswith(f"was:    draining, topic {clicks.settings.topic} to 0:35, asked for at ")
    third = Obedient(clicks, "third")
    wait_for("an epoch of the third driver", 30, lambda: third.epochs() > 0)
    third.stopping.set()
    third.join(30)
    clicks.assert_published_once(clicks.head().last_recorded + 1)


def test_a_paused_pipeline_publishes_what_is_declared_and_declares_nothing(
    clicks: Clicks, command: TextCommand
) -> None:
    code, told = command(documented(PAUSE))
    assert (code, told.splitlines()[0], told.splitlines()[-1]) == (0, "was:    running", "chain:  none yet")
    for step in clicks.start("first").steps():
        if step == "accepted 0":
            break
    driver = Obedient(clicks, "second")
    wish = objects.run(read(clicks.layout), clicks.store)
    assert wish.state is State.PAUSED
    wait_for("the driver to look again and again", 30, lambda: driver.looks > 4)
    assert (driver.is_alive(), driver.epochs(), clicks.head().last_recorded) == (True, 1, 0)
    with driver.turn:
        # It would go on before the command looks at the chain.
        code, told = command(documented(RESUME))
    assert (code, told.splitlines()[0]) == (0, f"was:    {wish}")
    assert told.splitlines()[-1] == "chain:  epoch 0 is the last recorded, none is declared, generation 2"
    wait_for("epochs", 30, lambda: driver.epochs() > 1)
    driver.stopping.set()
    driver.join(30)
    clicks.assert_published_once(clicks.head().last_recorded + 1)


def test_a_drain_without_a_driver_is_told_with_what_is_left(clicks: Clicks, command: TextCommand) -> None:
    put(clicks, 12)
    code, told = command("effectively-once drain settings.json --wait-s 1")
    assert code == ControlError.exit_code == 72
    expected = (
        f"ControlError: not drained within 1 s: topic {clicks.settings.topic} has offsets left: 0:12; none yet; "
        f"the chain did not move meanwhile: does a driver run? ({clicks.layout.control}). "
    )
    assert expected in told
    assert objects.run(read(clicks.layout), clicks.store).state is State.DRAINING


@pytest.mark.parametrize("error", [SourceError, UnreachableError])
def test_a_drain_whose_ends_cannot_be_read_asks_for_nothing(
    clicks: Clicks, command: TextCommand, error: type[SourceError | UnreachableError]
) -> None:
    (port,) = free_ports(1)
    wrong = {"topic": "none"} if error is SourceError else {"kafka_bootstrap": f"127.0.0.1:{port}"}
    clicks.file.write_text(clicks.settings.model_copy(update={**wrong, "start_patience_s": 1.0}).model_dump_json())
    code, told = command(DRAIN)
    assert (code, error.__name__ in told) == (error.exit_code, True)
    assert clicks.layout.control not in set(clicks.store.names(""))
