"""Epoch records leave head for segments, and history gives all of them back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.errors import ChainError, StaleDriverError
from effectively_once.ledger import chain, checksum, continuity, segments
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import FORMAT, READABLE
from effectively_once.ledger.held import Held
from effectively_once.ledger.objects import Put, run
from effectively_once.ledger.segments import TAIL_LIMIT
from tests.unit.ledger.memory_store import Fate, MemoryStore
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, flipped, ranges, record_of, taken


def _history(store: MemoryStore) -> list[EpochRecord]:
    """Every record, as whoever published it made it: not chained yet."""
    records = run(segments.history(LAYOUT, run(chain.read(LAYOUT), store)), store)
    return [record.model_copy(update={"before": None}) for record in records]


def test_a_tail_at_its_limit_stays_in_head_and_one_more_moves_the_older_half() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), TAIL_LIMIT)
    assert (held.head.segments, len(held.head.tail), list(store.objects)) == ((), TAIL_LIMIT, [LAYOUT.head])
    held = advanced(store, held, 1)
    assert held.head.segments == ((0, TAIL_LIMIT // 2 - 1),)
    assert [record.epoch for record in held.head.tail] == list(range(TAIL_LIMIT // 2, TAIL_LIMIT + 1))
    assert sorted(store.objects) == sorted([LAYOUT.head, LAYOUT.segment(0, TAIL_LIMIT // 2 - 1)])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10)), max_size=6), st.lists(st.sampled_from(Fate), max_size=60))
def test_history_is_dense_and_what_was_recorded(runs: list[tuple[bool, int]], fates: list[Fate]) -> None:
    store = MemoryStore(fates)
    held, generation = taken(store), 1
    expected: list[EpochRecord] = []
    with pytest.MonkeyPatch.context() as patch:
        # Few epochs make segments.
        patch.setattr(segments, "TAIL_LIMIT", 8)
        for restarted, epochs in runs:
            if restarted:
                generation += 1
                held = taken(store, f"driver {generation}")
            expected += [record_of(declaration(len(expected) + n), generation) for n in range(epochs)]
            held = advanced(store, held, epochs)
    assert _history(store) == expected
    assert len(held.head.tail) <= 8


def test_the_chain_goes_on_over_a_segment_that_another_driver_wrote_before_it_was_refused() -> None:
    store = MemoryStore()
    first = advanced(store, taken(store), TAIL_LIMIT)
    first = run(chain.declare(LAYOUT, first, declaration(TAIL_LIMIT), None, 0), store)
    second = taken(store, "second")
    with pytest.raises(StaleDriverError):
        run(chain.record(LAYOUT, first, record_of(declaration(TAIL_LIMIT))), store)
    assert LAYOUT.segment(0, TAIL_LIMIT // 2 - 1) in store.objects  # written by the stale one, named by nobody yet
    run(chain.record(LAYOUT, second, record_of(declaration(TAIL_LIMIT), 2)), store)
    expected = [record_of(declaration(epoch), 2 if epoch == TAIL_LIMIT else 1) for epoch in range(TAIL_LIMIT + 1)]
    assert _history(store) == expected


def test_a_batch_is_judged_by_the_tail_that_stays() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), TAIL_LIMIT + 1)
    assert continuity.classify(held.head, ranges(TAIL_LIMIT), "here") == "recorded"
    assert continuity.classify(held.head, ranges(TAIL_LIMIT + 1), "here") == "new"
    with pytest.raises(ChainError, match="an overlap"):
        continuity.classify(held.head, ranges(0), "here")  # far too old for a repeat of Spark's


def _broken(held: Held, store: MemoryStore, key: str, body: bytes | None) -> str:
    if body is None:
        del store.objects[key]
    else:
        store.objects[key] = body
    with pytest.raises(ChainError) as refused:
        run(segments.history(LAYOUT, held.head), store)
    return str(refused.value)


def test_a_missing_or_damaged_segment_is_named_in_one_line() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), TAIL_LIMIT + 1)
    key = LAYOUT.segment(*held.head.segments[0])
    whole = store.objects[key]
    first_line = whole.split(b"\n")[0]
    for body, says in (
        (None, "a segment of the chain is missing"),
        (b"", "damaged: Invalid JSON"),
        (whole[:-40], "damaged: Invalid JSON"),
        (whole.replace(b'"epoch":3', b'"epoch":"three"', 1), "damaged: Input should be a valid integer"),
        (whole.replace(b'"accepted":30', b'"accepted":31', 1), "damaged: epoch 0 is not what epoch 1 follows"),
        (first_line, f"damaged: it does not hold epochs 0 to {TAIL_LIMIT // 2 - 1}"),  # well-formed
    ):
        message = _broken(held, store, key, body)
        assert says in message
        assert key in message
        assert "\n" not in message


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b'{"format": 2}', b'{"format": 2, "pipeline": "counts", "generation": "one"}']
)
def test_a_damaged_head_is_refused_in_one_line_and_left_as_it_is(body: bytes) -> None:
    store = MemoryStore()
    store.objects[LAYOUT.head] = body
    for step in (chain.take_over(LAYOUT, "first", {}), chain.read(LAYOUT)):
        with pytest.raises(ChainError, match="head cannot be read") as refused:
            run(step, store)
        assert "\n" not in str(refused.value)
        assert LAYOUT.head in str(refused.value)
    assert store.objects == {LAYOUT.head: body}


def test_a_head_of_a_newer_format_asks_for_a_newer_version_not_for_a_backup() -> None:
    store = MemoryStore()
    newer = taken(store).head.model_dump(mode="json") | {"format": READABLE[-1] + 1}
    for content in (newer, newer | {"invented_later": 1}):
        store.objects[LAYOUT.head] = checksum.seal(content)
        with pytest.raises(ChainError, match=r"head has format \d, this version reads 2 to \d.*Use a newer version"):
            taken(store, "second")


def test_a_head_of_an_older_format_is_not_half_understood() -> None:
    store = MemoryStore()
    older = taken(store).head.model_copy(update={"format": READABLE[0] - 1}).encode()
    store.objects[LAYOUT.head] = older
    with pytest.raises(ChainError, match="Let the version that wrote it finish"):
        taken(store, "second")
    assert store.objects == {LAYOUT.head: older}


def test_head_stays_small_however_long_the_pipeline_runs() -> None:
    store = MemoryStore()
    advanced(store, taken(store), 3 * TAIL_LIMIT)
    sizes = [len(put.body) for put in store.requests if isinstance(put, Put) and put.key == LAYOUT.head]
    assert max(sizes) < 100_000
    assert max(sizes[2 * TAIL_LIMIT :]) < 1.1 * max(sizes[: 2 * TAIL_LIMIT])


def test_history_from_the_floor_on_reads_no_older_segment() -> None:
    """The one that holds the floor is read, be it its first epoch or its last."""
    store = MemoryStore()
    held = advanced(store, taken(store), 3 * TAIL_LIMIT)
    (_, segment, *_) = held.head.segments
    for since in (segment[0], segment[0] + 1, segment[1]):
        store.requests.clear()
        records = run(segments.history(LAYOUT, held.head, since), store)
        assert [record.epoch for record in records] == list(range(segment[0], 3 * TAIL_LIMIT))
        assert LAYOUT.segment(*held.head.segments[0]) not in [request.key for request in store.requests]


def _of_format_2(store: MemoryStore) -> None:
    """Have a chain as the version before wrote it: no checksums in head, records and segments."""
    for key, body in store.objects.items():
        lines = [json.loads(line) for line in body.split(b"\n")]
        for content in lines:
            content.pop(checksum.FIELD, None)
            for record in (content, *content.get("tail", ())):
                record.pop("before", None)
        if key == LAYOUT.head:
            lines[0]["format"] = 2
        store.objects[key] = b"\n".join(json.dumps(content).encode() for content in lines)


@pytest.mark.parametrize("epochs", [0, 1, TAIL_LIMIT + 3])
def test_a_chain_of_the_format_before_goes_on_and_has_checksums_with_the_next_put(epochs: int) -> None:
    store = MemoryStore()
    advanced(store, taken(store), epochs)
    _of_format_2(store)
    assert b"checksum" not in store.objects[LAYOUT.head]
    kept = run(chain.read(LAYOUT), store).tail
    held = taken(store, "second")
    assert json.loads(store.objects[LAYOUT.head])["format"] == FORMAT
    assert held.head.tail == kept
    held = advanced(store, held, TAIL_LIMIT)
    records = run(segments.history(LAYOUT, held.head), store)
    assert [record.epoch for record in records] == list(range(epochs + TAIL_LIMIT))
    assert [record.before is None for record in records] == [n < max(1, epochs) for n in range(epochs + TAIL_LIMIT)]


def test_each_record_names_the_checksum_of_the_one_before() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), TAIL_LIMIT + 1)
    records = run(segments.history(LAYOUT, held.head), store)
    assert [record.before for record in records] == [None, *(record.checksum for record in records[:-1])]
    # Whoever reads head comes to them as well.
    told = json.loads(store.objects[LAYOUT.head])["tail"]
    assert [checksum.of(record) for record in told] == [record.checksum for record in held.head.tail]


def test_the_checksum_of_a_record_stays_what_it_was() -> None:
    """A field that is new has to be left out where it is not used: else a chain of before would look damaged."""
    assert record_of(declaration(7)).checksum == ("a793c69031cc2cc40053ee92f08951a3b74ae12f7de36c540e5d452e38f93638")


@cache
def _long() -> Mapping[str, bytes]:
    """Head with a tail and an epoch that is declared, and two segments."""
    store = MemoryStore()
    held = advanced(store, taken(store), TAIL_LIMIT + TAIL_LIMIT // 2 + 1)
    run(chain.declare(LAYOUT, held, declaration(held.head.last_recorded + 1), None, 0), store)
    return store.objects


@pytest.mark.parametrize("nth", range(3))
@given(place=st.floats(0, 1, exclude_max=True))
def test_one_flipped_bit_of_head_or_of_a_segment_is_refused_by_its_name(nth: int, place: float) -> None:
    store = MemoryStore()
    key, body = [*_long().items()][nth]
    store.objects = {**_long(), key: flipped(body, int(place * 8 * len(body)))}
    what = "head cannot be read" if key == LAYOUT.head else "a segment of the chain is damaged"
    with pytest.raises(ChainError, match=f"{what}: .*{key}.*Restore"):
        _history(store)


@pytest.mark.parametrize("version", [3, FORMAT])
def test_a_head_of_a_format_with_checksums_is_damaged_without_one(version: int) -> None:
    store = MemoryStore()
    content = taken(store).head.model_dump(mode="json", by_alias=True) | {"format": version}
    store.objects[LAYOUT.head] = checksum.seal(content)
    assert run(chain.read(LAYOUT), store).format == FORMAT
    store.objects[LAYOUT.head] = checksum.canonical(content)
    with pytest.raises(ChainError, match="its checksum is missing"):
        run(chain.read(LAYOUT), store)
