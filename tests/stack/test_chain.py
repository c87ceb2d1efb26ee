"""The chain on the real object store: fencing among live drivers, and a store that is killed under them (R1, R2)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from effectively_once.errors import ChainError, SettingsError, StaleDriverError
from effectively_once.ledger import chain, segments
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.held import Held
from effectively_once.ledger.objects import Answer, Found, Get, Lost, Put, Request, Written, run
from effectively_once.ledger.segments import TAIL_LIMIT
from effectively_once.pipeline.settings import refuse_changed
from effectively_once.store.object_store import S3ObjectStore
from infra.embedded.stack import EmbeddedStack
from tests.settings import pipeline_settings
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, record_of, taken

pytestmark = pytest.mark.stack


def _epochs(store: S3ObjectStore) -> list[int]:
    head = run(chain.read(LAYOUT), store)
    return [record.epoch for record in run(segments.history(LAYOUT, head), store)]


def test_a_chain_of_many_epochs_and_drivers_gives_back_its_whole_history(store: S3ObjectStore) -> None:
    expected: list[EpochRecord] = []
    for generation, epochs in enumerate((TAIL_LIMIT, 3, TAIL_LIMIT // 2), start=1):
        held = taken(store, f"driver {generation}")
        assert held.head.generation == generation
        first = len(expected)
        expected += [record_of(declaration(first + n), generation) for n in range(epochs)]
        held = advanced(store, held, epochs)
    assert len(held.head.segments) == 2
    found = run(segments.history(LAYOUT, run(chain.read(LAYOUT), store)), store)
    assert [record.model_copy(update={"before": None}) for record in found] == expected


def test_a_driver_that_was_replaced_is_refused_and_head_stays_as_it_is(store: S3ObjectStore) -> None:
    first = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store)
    second = taken(store, "second")
    before = store.answer(Get(LAYOUT.head))
    with pytest.raises(StaleDriverError, match="driver first of generation 1 was replaced by second of generation 2"):
        run(chain.declare(LAYOUT, first, declaration(1), record_of(declaration(0)), 0), store)
    with pytest.raises(StaleDriverError):
        run(chain.record(LAYOUT, first, record_of(declaration(0))), store)
    assert store.answer(Get(LAYOUT.head)) == before
    run(chain.record(LAYOUT, second, record_of(declaration(0), 2)), store)
    assert _epochs(store) == [0]


class _Forgetful(S3ObjectStore):
    """Carries out every put and forgets to tell how it ended."""

    def answer(self, request: Request) -> Answer:
        answer = super().answer(request)
        return Lost() if isinstance(request, Put) and isinstance(answer, Written) else answer


def test_a_driver_that_hears_of_none_of_its_puts_is_not_taken_for_a_stale_one(store: S3ObjectStore) -> None:
    deaf = _Forgetful(store.address)
    held = advanced(deaf, taken(deaf), 5)
    assert run(chain.read(LAYOUT), store) == held.head
    assert _epochs(store) == [0, 1, 2, 3, 4]
    with pytest.raises(StaleDriverError):
        run(chain.declare(LAYOUT, taken(deaf), declaration(5), None, 0), _replaced_meanwhile(deaf))


def _replaced_meanwhile(store: S3ObjectStore) -> S3ObjectStore:
    taken(store, "other")
    return store


def test_of_drivers_that_take_over_at_once_each_gets_a_generation_and_only_the_last_can_declare(
    store: S3ObjectStore,
) -> None:
    drivers = 8
    together = threading.Barrier(drivers)

    def start(number: int) -> Held:
        together.wait(30)
        return taken(store, f"driver {number}")

    with ThreadPoolExecutor(drivers) as pool:
        held = sorted(pool.map(start, range(drivers)), key=lambda one: one.head.generation)
    assert [one.head.generation for one in held] == list(range(1, drivers + 1))
    for stale in held[:-1]:
        with pytest.raises(StaleDriverError):
            run(chain.declare(LAYOUT, stale, declaration(0), None, 0), store)
    assert run(chain.declare(LAYOUT, held[-1], declaration(0), None, 0), store).head.declared == declaration(0)


def test_drivers_that_keep_taking_over_leave_a_dense_chain(store: S3ObjectStore) -> None:
    """Four drivers work at once; each goes on until it is refused, then starts again: nobody coordinates them."""
    target = 20

    def live(number: int) -> int:
        started = 0
        while True:
            held = taken(store, f"driver {number}, start {started}")
            started += 1
            try:
                while True:
                    if held.head.last_recorded >= target:
                        return started
                    declared = held.head.declared
                    if declared is None:
                        following = declaration(held.head.last_recorded + 1)
                        held = run(chain.declare(LAYOUT, held, following, None, 0), store)
                    else:
                        held = run(chain.record(LAYOUT, held, record_of(declared, held.head.generation)), store)
            except StaleDriverError:
                continue

    with ThreadPoolExecutor(4) as pool:
        starts = list(pool.map(live, range(4)))
    head = run(chain.read(LAYOUT), store)
    assert head.generation == sum(starts)
    assert _epochs(store) == list(range(head.last_recorded + 1))
    assert head.last_recorded >= target


def test_a_driver_survives_the_death_of_the_store_under_it(stack: EmbeddedStack, store: S3ObjectStore) -> None:
    running = threading.Event()

    def drive() -> Held:
        held = advanced(store, taken(store), 10)
        running.set()
        return advanced(store, held, 60)

    with ThreadPoolExecutor(1) as pool:
        driving = pool.submit(drive)
        assert running.wait(30)
        stack.object_store.kill()
        stack.object_store.restart()
        held = driving.result(60)
    assert (held.head.generation, held.head.owner) == (1, "first")
    assert _epochs(store) == list(range(70))


def test_a_damaged_head_is_refused_in_one_line_and_left_as_it_is(store: S3ObjectStore) -> None:
    advanced(store, taken(store), 2)
    whole = store.answer(Get(LAYOUT.head))
    assert isinstance(whole, Found)
    assert isinstance(store.answer(Put(LAYOUT.head, whole.body[:-100], whole.etag)), Written)
    with pytest.raises(ChainError, match=f"head cannot be read: .*{LAYOUT.head}.*do not delete it") as refused:
        taken(store, "second")
    assert "\n" not in str(refused.value)
    kept = store.answer(Get(LAYOUT.head))
    assert isinstance(kept, Found)
    assert kept.body == whole.body[:-100]


def test_settings_that_changed_since_the_chain_began_are_refused_by_name(store: S3ObjectStore) -> None:
    settings = pipeline_settings(pipeline=LAYOUT.pipeline)
    run(chain.take_over(LAYOUT, "first", settings.bound), store)
    wider = settings.model_copy(update={"shards": 3})
    held = run(chain.take_over(LAYOUT, "second", wider.bound), store)
    refuse_changed(held.head.settings, settings.bound, LAYOUT.head)
    with pytest.raises(SettingsError, match=f"shards was 2 when this pipeline began and is 3 now .{LAYOUT.head}"):
        refuse_changed(held.head.settings, wider.bound, LAYOUT.head)
