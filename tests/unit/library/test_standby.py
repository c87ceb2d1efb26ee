"""A driver that waits with its session up: it declares nothing, and takes over as any driver that starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from effectively_once.driver import driver, warmth
from effectively_once.driver.driver import Driver
from effectively_once.driver.lease_keeper import LeaseKeeper
from effectively_once.driver.lease_watch import Why
from effectively_once.driver.preflight import Preflight
from effectively_once.driver.standby import Standby
from effectively_once.epoch import rows
from effectively_once.errors import SettingsError, SourceError, StaleDriverError, UnreachableError
from effectively_once.ledger import chain, lease
from effectively_once.ledger.held import Held
from effectively_once.ledger.objects import Put, run
from effectively_once.pipeline.job import Job
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import Fate
from tests.unit.ledger.samples import LAYOUT, SETTINGS, WHEEL, declaration
from tests.unit.library.test_start_check import EPOCHS, PLAIN, Stand

TTL_S = 5.0


class Waiting:
    """A standby of a pipeline whose driver is `first`, with a clock of its own.

    Attributes:
        then: is called each time the standby pauses; a signal to stop comes after so many.

    """

    def __init__(self, stand: Stand, wheel: str = WHEEL) -> None:
        self.stand, self.store, self.now_s, self.stop = stand, stand.store, 0.0, list[int]()
        self.then: Callable[[], object] = lambda: None
        self.pauses_left = 200
        self.driver = Driver(stand.job, wheel)
        self.driver.check()
        spark: Any = None
        self.standby = Standby(self.driver, spark, self.store, lambda: self.now_s, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.pauses_left -= 1
        if not self.pauses_left:
            self.stop.append(15)
        self.then()

    def wait(self) -> bool:
        return self.standby.wait(self.stop)

    def metric(self, name: str, **labels: str) -> float | None:
        registry = self.driver.metrics.registry
        return registry.get_sample_value(f"effectively_once_{name}", {"pipeline": "counts", **labels})


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """Of a pipeline with standbys; no thread of theirs is left."""
    made = Stand(monkeypatch)
    made.job = Job(PLAIN, pipeline_settings(pipeline="counts", standby=True, lease_s=TTL_S, **SETTINGS))
    monkeypatch.setattr(rows, "check", lambda *_: None)
    monkeypatch.setattr(warmth, "start", lambda *_: None)
    monkeypatch.setattr(driver, "lease_store", lambda _: made.store)
    keepers: list[LeaseKeeper] = []

    def start(keeper: LeaseKeeper) -> None:
        keepers.append(keeper)
        keeper.renew()

    monkeypatch.setattr(LeaseKeeper, "start", start)
    yield made
    assert len({keeper._lease.owner for keeper in keepers}) == len(keepers)


@pytest.fixture
def waiting(stand: Stand) -> Waiting:
    return Waiting(stand)


def active(stand: Stand) -> LeaseKeeper:
    """Return what renews the lease of the driver at work."""
    return LeaseKeeper(LAYOUT, stand.store, stand.held.head.owner, stand.held.head.generation, TTL_S)


def test_while_the_lease_is_renewed_a_standby_changes_nothing_of_the_pipeline(stand: Stand, waiting: Waiting) -> None:
    waiting.then = active(stand).renew
    before = dict(stand.store.objects)
    assert not waiting.wait()
    changed = {key for key, body in stand.store.objects.items() if before.get(key) != body}
    assert changed == {LAYOUT.lease, LAYOUT.standby}
    assert waiting.now_s > 10 * TTL_S
    assert waiting.metric("standby") == 1
    assert waiting.metric("generation") is None, "rules would take 0 for a driver at work"


def test_a_lease_that_ran_out_is_followed_by_the_next_generation(stand: Stand, waiting: Waiting) -> None:
    active(stand).renew()
    assert waiting.wait()
    assert TTL_S <= waiting.now_s <= TTL_S + 2 * TTL_S / lease.RENEWALS
    head = run(chain.read(LAYOUT), stand.store)
    assert (head.generation, head.owner) == (stand.held.head.generation + 1, waiting.driver.chain.owner)
    with pytest.raises(StaleDriverError):
        run(chain.declare(LAYOUT, stand.held, declaration(EPOCHS), None, 0), stand.store)
    assert [waiting.metric("takeovers_total", why=why.value) for why in Why] == [0, 0, 1, 0]
    assert (waiting.metric("standby"), waiting.metric("generation")) == (0, head.generation)


def test_a_lease_that_is_released_is_followed_at_the_next_look(stand: Stand, waiting: Waiting) -> None:
    keeper = active(stand)
    keeper.renew()
    waiting.then = keeper.release
    assert waiting.wait()
    assert waiting.now_s <= TTL_S / lease.RENEWALS
    assert waiting.metric("takeovers_total", why="released") == 1


def test_the_first_driver_of_a_pipeline_waits_for_nobody(stand: Stand, waiting: Waiting) -> None:
    stand.store.objects.clear()
    # As far as the marks of its sinks say.
    stand.held = Held(stand.held.head.model_copy(update={"last_recorded": -1}), "")
    assert waiting.wait()
    assert waiting.now_s == 0
    assert waiting.metric("takeovers_total", why="first") == 1


def test_of_two_standbys_one_takes_over_and_the_other_waits_on(stand: Stand, waiting: Waiting) -> None:
    """Both see the same silence; the one that comes second must not fence the first."""
    other = Waiting(stand)
    active(stand).renew()
    began = waiting.driver.check_again

    def slower() -> None:
        waiting.driver.check_again = began  # type: ignore[method-assign]
        assert other.wait()
        assert other.driver._lease is not None
        waiting.then = other.driver._lease.renew

    waiting.driver.check_again = slower  # type: ignore[method-assign]
    assert not waiting.wait()
    head = run(chain.read(LAYOUT), stand.store)
    assert (head.generation, head.owner) == (stand.held.head.generation + 1, other.driver.chain.owner)


def test_an_answer_that_got_lost_while_it_took_over_is_no_other_driver(stand: Stand, waiting: Waiting) -> None:
    active(stand).renew()
    again = waiting.driver.check_again

    def lose() -> None:
        again()
        stand.store.fated(Fate.LOST_APPLIED)

    waiting.driver.check_again = lose  # type: ignore[method-assign]
    assert waiting.wait()
    assert run(chain.read(LAYOUT), stand.store).owner == waiting.driver.chain.owner


def test_a_standby_says_that_it_waits_and_that_it_waits_no_more(stand: Stand, waiting: Waiting) -> None:
    keeper, notes = active(stand), list[lease.Lease | None]()
    keeper.renew()

    def watch() -> None:
        keeper.renew()
        notes.append(lease.decode(stand.store.objects[LAYOUT.standby]))

    waiting.then = watch
    stand.store.requests.clear()
    assert not waiting.wait()
    told = [note for note in notes if note is not None]
    assert len(told) == len(notes)
    assert {(note.owner, note.released) for note in told} == {(waiting.driver.chain.owner, False)}
    puts = sum(isinstance(one, Put) and one.key == LAYOUT.standby for one in stand.store.requests)
    assert puts <= waiting.now_s / TTL_S + 3
    last = lease.decode(stand.store.objects[LAYOUT.standby])
    assert last is not None
    assert last.released


def test_what_would_refuse_a_take_over_refuses_a_standby_at_its_start(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SettingsError("shards was 2 and is 3", "head", "Set it back.")

    monkeypatch.setattr("effectively_once.driver.preflight.refuse_changed", refuse)
    with pytest.raises(SettingsError, match="shards was 2"):
        Waiting(stand).wait()
    assert run(chain.read(LAYOUT), stand.store).owner == stand.held.head.owner


def test_a_standby_of_another_version_waits_until_the_declared_epoch_is_recorded(stand: Stand) -> None:
    stand.declare()
    waiting = Waiting(stand, "c" * 64)
    waiting.then = active(stand).renew
    assert not waiting.wait()


def test_topics_that_were_made_anew_meanwhile_refuse_the_take_over(
    stand: Stand, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found at the start may be hours old."""
    now, keeper = {"events": "id"}, active(stand)
    keeper.renew()
    monkeypatch.setattr(Preflight, "surroundings", lambda _: now)

    def same_topic(_: object, found: dict[str, str]) -> None:
        if found["events"] != "id":
            raise SourceError("the topic was deleted and created again", "topic events", "Restore it.")

    monkeypatch.setattr(stand.source, "same_topic", same_topic)

    def recreate() -> None:
        nonlocal now
        now = {"events": "another"}

    waiting.then = recreate
    with pytest.raises(SourceError, match="created again"):
        waiting.wait()
    assert run(chain.read(LAYOUT), stand.store).owner == stand.held.head.owner


def test_a_broker_that_went_with_the_driver_is_waited_for(
    stand: Stand, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    active(stand).renew()
    tries = iter(range(3))

    def surroundings(_: object) -> dict[str, str]:
        if next(tries, None) is not None:
            raise UnreachableError("the broker does not answer", "localhost:1", "Wait.")
        return {"events": "id"}

    monkeypatch.setattr(Preflight, "surroundings", surroundings)
    assert waiting.wait()


def test_executors_are_kept_warm_until_the_wait_is_over(
    stand: Stand, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    overs: list[threading.Event] = []
    monkeypatch.setattr(warmth, "start", lambda *given: overs.append(given[-1]))
    active(stand).renew()
    waiting.then = lambda: overs[0].is_set() and pytest.fail("they go cold while it waits")
    assert waiting.wait()
    assert [over.is_set() for over in overs] == [True]
