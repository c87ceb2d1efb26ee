"""A refused record that no dead letter holds: in an object before its letter is shown, read again by its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from effectively_once.epoch import kept_records, messages
from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Answer, Put, Request
from effectively_once.operate.dead_letters.replay import Replay
from effectively_once.operate.retention.leftovers import Sort
from effectively_once.operate.retention.retention import KEPT
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.sinks import letter_records
from effectively_once.sinks.dead_letters import Cut, DeadLetter, Selection, of_message, show_letters
from tests.unit.ledger.memory_store import Fate, MemoryStore
from tests.unit.library.backups import LAYOUT, head_of, restored, stored, taken
from tests.unit.library.one_epoch import PIPELINE, Place, table
from tests.unit.library.test_replay import MemorySender
from tests.unit.library.test_retention import AgedStore, driver, retention

ALL = Selection()
RECORD = b"\xff\x00" * 20_000
SHA256 = hashlib.sha256(RECORD).hexdigest()
EPOCH = 3


@pytest.fixture(autouse=True)
def small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a topic of dead letters take 20 KiB."""
    monkeypatch.setattr(messages, "LETTER_BYTES", 20 << 10)


@pytest.fixture
def place() -> Place:
    return Place()


def refuse(place: Place, *values: bytes) -> list[DeadLetter]:
    """Run the first step on records that are refused; return their dead letters."""
    rows = table([{"reason": "not_json", "value": value, "id": None} for value in values])
    place.dedup(rows, number=EPOCH)
    found = [of_message(body, (0, 0)) for _, body in place.published[DEAD_LETTER, 0]]
    assert all(isinstance(one, DeadLetter) for one in found)
    return found  # type: ignore[return-value]


def key_of(place: Place) -> str:
    return Layout(place.name).letter(EPOCH, SHA256)


def whole_in(place: Place) -> Callable[[DeadLetter], DeadLetter]:
    return lambda letter: letter_records.read(place.store, letter)


def test_a_record_that_no_letter_holds_is_an_object_that_its_letter_names(place: Place) -> None:
    small, large = refuse(place, b"{", RECORD)
    assert (small.value, small.cut) == (b"{", None)
    assert (large.value, large.cut) == (None, Cut(bytes=len(RECORD), sha256=SHA256, key=key_of(place)))
    assert place.store.objects[key_of(place)] == RECORD
    assert letter_records.read(place.store, large) == replace(large, value=RECORD)
    assert letter_records.read(place.store, small) is small


def test_the_object_is_there_before_any_sink_shows_the_epoch(place: Place) -> None:
    """So a store that takes it no more stops an epoch of which nothing is visible."""
    full = MemoryStore()

    def answer(request: Request) -> Answer:
        if isinstance(request, Put) and request.key == key_of(place):
            raise UnreachableError("the object store is full", request.key, "Make room.")
        return MemoryStore.answer(full, request)

    full.answer = answer  # type: ignore[method-assign]
    place.store = full
    with pytest.raises(UnreachableError, match="full"):
        refuse(place, RECORD)
    assert place.published == {}


@pytest.mark.parametrize("fate", [Fate.ANSWERED, Fate.LOST_APPLIED, Fate.LOST_DROPPED, Fate.LOST_DELAYED])
def test_a_repeat_finds_the_object_and_writes_the_same_letter(place: Place, fate: Fate) -> None:
    """As after a kill between the object and its letter."""
    place.store.fated(fate)
    first = refuse(place, RECORD)
    there = dict(place.store.objects)
    assert refuse(place, RECORD) == first
    assert {key: body for key, body in place.store.objects.items() if "/dead_letter/" in key} == {
        key: body for key, body in there.items() if "/dead_letter/" in key
    }


def test_a_task_that_has_ended_puts_nothing(place: Place) -> None:
    def ended() -> None:
        raise SinkError("the task has ended", "", "")

    step = place.step(place.task(PIPELINE, EPOCH))
    step.confirm = ended
    with pytest.raises(SinkError, match="has ended"):
        kept_records.keeper(step)(RECORD, SHA256)
    assert place.store.objects == {}


def test_another_content_under_the_name_of_a_record_is_damage(place: Place) -> None:
    place.store.objects[key_of(place)] = RECORD[1:]
    with pytest.raises(SinkError, match=r"is damaged.*Delete it and start again"):
        refuse(place, RECORD)
    assert place.published == {}


def lose(objects: dict[str, bytes], key: str) -> None:
    del objects[key]


def flip(objects: dict[str, bytes], key: str) -> None:
    objects[key] = bytes([objects[key][0] ^ 1]) + objects[key][1:]


def shorten(objects: dict[str, bytes], key: str) -> None:
    objects[key] = objects[key][:-1]


HARM = [(lose, "is missing"), (flip, "is damaged"), (shorten, "is damaged")]
Harm = Callable[[dict[str, bytes], str], None]


@pytest.mark.parametrize(("harm", "said"), HARM)
def test_a_record_that_is_not_there_as_it_was_is_refused_with_the_way_out(place: Place, harm: Harm, said: str) -> None:
    letters = refuse(place, RECORD)
    harm(place.store.objects, key_of(place))
    sender = MemorySender()
    for use in (
        lambda: Replay(sender, ("t",), whole=whole_in(place)).run(letters, ALL),
        lambda: [*show_letters(letters, ALL, 1, whole_in(place))],
    ):
        with pytest.raises(SinkError, match=rf"{said}.*{key_of(place)}.*from a backup"):
            use()
    assert sender.sent == []


def test_a_replay_sends_the_record_as_it_came_or_edited(place: Place) -> None:
    letters = refuse(place, b"{", RECORD)
    for edit, due in ((None, RECORD), (lambda value: value[:1], RECORD[:1])):
        sender = MemorySender()
        done = Replay(sender, ("t",), edit, whole=whole_in(place)).run(letters, ALL)
        assert [one["value"] for one in sender.sent] == [b"{", due]
        assert (done.acknowledged, done.left) == (2, {})


def test_a_letter_is_shown_with_its_record_and_the_object_that_holds_it(place: Place) -> None:
    letters = refuse(place, RECORD)
    (line,) = show_letters(letters, ALL, 10, whole_in(place))
    told = json.loads(line)
    assert (told["encoding"], told["cut"]["key"]) == ("base64", key_of(place))
    assert of_message(line.encode(), (0, 0)) == replace(letters[0], value=RECORD)


def test_what_is_left_out_is_not_read(place: Place) -> None:
    letters = refuse(place, RECORD)
    place.store.objects.clear()
    assert (
        Replay(MemorySender(), ("t",), whole=whole_in(place)).run(letters, Selection(epochs=(0, EPOCH - 1))).sent == 0
    )
    assert list(show_letters(letters, Selection(reasons=frozenset({"late"})), 10, whole_in(place))) == []


def test_a_letter_of_a_former_version_has_no_object() -> None:
    former = DeadLetter("not_json", None, None, 0, ("t", 0, 1), Cut(bytes=len(RECORD), sha256=SHA256))
    assert letter_records.read(MemoryStore(), former) is former
    assert letter_records.name_error([former]) == frozenset()


def kept(store: MemoryStore, *epochs: int) -> list[str]:
    return [letter_records.put(store, LAYOUT, epoch, RECORD, SHA256) for epoch in epochs]


def letter(key: str) -> DeadLetter:
    return DeadLetter("not_json", None, None, 0, ("t", 0, 1), Cut(bytes=len(RECORD), sha256=SHA256, key=key))


@pytest.fixture
def aged() -> AgedStore:
    store = AgedStore()
    driver(store).run(6)
    return store


def test_a_record_stays_as_long_as_a_letter_names_it_and_its_epoch_may_yet_be_shown(aged: AgedStore) -> None:
    last = head_of(aged).last_recorded
    read, unread, declared = kept(aged, 2, last, last + 1)
    work = retention(aged, letters=lambda: letter_records.name_error([letter(read)]))
    found = work.find()
    assert [one.name for one in found.objects[Sort.LETTERS]] == [unread]
    work.delete(found)
    assert {read, declared} <= set(aged.objects)
    assert unread not in aged.objects


@pytest.mark.parametrize("how", [{"letters": None}, {"letters": frozenset, "keep": [Sort.LETTERS]}])
def test_records_stay_where_nobody_asks_for_their_letters(aged: AgedStore, how: dict[str, Any]) -> None:
    kept(aged, 2)
    found = retention(aged, **how).find()
    assert (found.objects[Sort.LETTERS], found.left[KEPT]) == ([], 1)


def test_the_topic_is_read_only_where_there_are_records(aged: AgedStore) -> None:
    def unreachable() -> frozenset[str]:
        raise UnreachableError("the Kafka broker does not answer", "k:1", "Check it.")

    retention(aged, letters=unreachable).find()
    kept(aged, 2)
    with pytest.raises(UnreachableError):
        retention(aged, letters=unreachable).find()


def test_a_backup_has_the_records_of_recorded_epochs_and_a_restore_puts_them_back() -> None:
    source = stored(8)
    last = head_of(source).last_recorded
    first, latest, declared = kept(source, 0, last, last + 1)
    again = restored(taken(source))
    assert {key: again.objects.get(key) for key in (first, latest)} == {first: RECORD, latest: RECORD}
    assert declared not in again.objects, "the repeat of the epoch puts it there"


def test_a_backup_of_a_damaged_record_is_refused() -> None:
    source = stored(8)
    (key,) = kept(source, 0)
    flip(source.objects, key)
    with pytest.raises(SinkError, match=rf"is damaged \({key}\)"):
        taken(source)


def test_a_name_tells_its_epoch() -> None:
    assert letter_records.epoch_of(LAYOUT.letter(1_000_000_000, SHA256)) == 1_000_000_000
    assert letter_records.epoch_of(f"{LAYOUT.letters}x") is None
    with pytest.raises(SinkError, match="is damaged"):
        letter_records.check(RECORD, f"{LAYOUT.letters}x")
