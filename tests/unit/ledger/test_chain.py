"""Taking over, declaring and recording: what head becomes, and what is refused (R1, R3, R9)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.errors import ChainError, StaleDriverError, VersionError
from effectively_once.ledger import chain, continuity, interventions, pinned_version
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import Put, run
from effectively_once.ledger.offsets import Ranges
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, SETTINGS, advanced, declaration, declared_in, ranges, record_of, taken


def test_the_first_driver_begins_a_chain_of_generation_one() -> None:
    store = MemoryStore()
    head = taken(store).head
    assert (head.generation, head.owner, head.last_recorded, head.declared, head.floor) == (1, "first", -1, None, 0)
    assert head.settings == SETTINGS
    assert run(chain.read(LAYOUT), store) == head


def test_each_later_driver_raises_the_generation_and_keeps_everything_else() -> None:
    store = MemoryStore()
    before = advanced(store, taken(store), 3, floor=1).head
    after = run(chain.take_over(LAYOUT, "second", {"topic": "other"}), store).head
    assert (after.generation, after.owner, after.sequence) == (2, "second", before.sequence + 1)
    changed = {"generation", "owner", "sequence"}
    # The settings are the chain's, not those of the driver that takes over: the driver compares them afterwards.
    assert after.model_dump(exclude=changed) == before.model_dump(exclude=changed)


def test_a_start_that_is_refused_by_what_the_chain_holds_fences_nobody() -> None:
    store = MemoryStore()
    before = advanced(store, taken(store), 2).head
    kept = dict(store.objects)
    shown: list[Head] = []

    def refuse(head: Head) -> None:
        shown.append(head)
        raise VersionError("not mine", "here", "Go away.")

    with pytest.raises(VersionError, match="not mine"):
        run(chain.take_over(LAYOUT, "second", SETTINGS, refuse), store)
    assert (shown, store.objects) == ([before], kept)
    run(chain.take_over(LAYOUT, "second", SETTINGS, shown.append), store)
    assert shown == [before, before]


def test_declaring_the_next_epoch_records_the_one_before_in_one_put() -> None:
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store)
    puts = len(store.requests)
    held = run(chain.declare(LAYOUT, held, declaration(1), record_of(declaration(0)), 0), store)
    assert len(store.requests) == puts + 1
    assert (held.head.last_recorded, held.head.declared) == (0, declaration(1))
    assert held.head.tail == (record_of(declaration(0)),)
    assert run(chain.read(LAYOUT), store) == held.head


def test_every_change_of_head_raises_its_sequence_by_one() -> None:
    """So no content comes twice, and no ETag of before fits again (R1)."""
    store = MemoryStore()
    held = advanced(store, taken(store), 2)
    held = run(chain.declare(LAYOUT, held, declaration(2), None, 0), store)
    held = run(interventions.finish_as_shown(LAYOUT, taken(store, "operator"), {}, "c" * 64), store)
    held = run(interventions.abandon(LAYOUT, held), store)
    held = run(chain.record(LAYOUT, held, record_of(declared_in(held))), store)
    loss = Loss(offsets={"events": {"0": (20, 23)}}, at_ms=0)
    run(interventions.give_up(LAYOUT, held, loss, lineage="000002-beef", wheel_digest="c" * 64), store)
    told = [json.loads(put.body)["sequence"] for put in store.requests if isinstance(put, Put)]
    assert told == list(range(10))


def test_a_driver_that_was_replaced_is_refused_and_head_stays_as_it_is() -> None:
    store = MemoryStore()
    first = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store)
    taken(store, "second")
    kept = dict(store.objects)
    with pytest.raises(StaleDriverError, match="driver first of generation 1 was replaced by second of generation 2"):
        run(chain.declare(LAYOUT, first, declaration(1), record_of(declaration(0)), 0), store)
    with pytest.raises(StaleDriverError, match="replaced by second"):
        run(chain.record(LAYOUT, first, record_of(declaration(0))), store)
    assert store.objects == kept


def test_a_driver_whose_head_was_deleted_stops_and_does_not_create_it_anew() -> None:
    store = MemoryStore()
    held = taken(store)
    del store.objects[LAYOUT.head]
    with pytest.raises(StaleDriverError, match="head is gone"):
        run(chain.declare(LAYOUT, held, declaration(0), None, 0), store)
    assert store.objects == {}
    with pytest.raises(ChainError, match="head is gone"):
        run(chain.read(LAYOUT), store)


def test_a_driver_whose_head_was_damaged_says_where_and_leaves_it() -> None:
    store = MemoryStore()
    held = taken(store)
    store.objects[LAYOUT.head] = b"not json"
    with pytest.raises(ChainError, match=f"head cannot be read: .*{LAYOUT.head}.*Restore"):
        run(chain.declare(LAYOUT, held, declaration(0), None, 0), store)
    assert store.objects == {LAYOUT.head: b"not json"}


@pytest.mark.parametrize("wrong", [0, 2, 7])
def test_only_the_next_epoch_can_be_declared(wrong: int) -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 1)
    with pytest.raises(ChainError, match=f"epoch {wrong} cannot be declared, the chain is at 0"):
        run(chain.declare(LAYOUT, held, declaration(wrong), None, 0), store)
    assert run(chain.read(LAYOUT), store) == held.head


def test_a_second_epoch_cannot_be_declared_beside_one_that_is_not_published() -> None:
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store)
    for epoch in (0, 1):
        with pytest.raises(ChainError, match="cannot be declared"):
            run(chain.declare(LAYOUT, held, declaration(epoch), None, 0), store)


def test_only_the_declared_epoch_with_the_declared_ranges_can_be_recorded() -> None:
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store)
    shifted = declaration(0, {"events": {"0": (0, 11), "1": (0, 20)}})
    for wrong in (record_of(declaration(1)), record_of(shifted), record_of(declaration(1, ranges(0)))):
        with pytest.raises(ChainError, match="cannot be recorded, it is not the one declared"):
            run(chain.record(LAYOUT, held, wrong), store)
    recorded = run(chain.record(LAYOUT, held, record_of(declaration(0))), store)
    with pytest.raises(ChainError, match="cannot be recorded"):
        run(chain.record(LAYOUT, recorded, record_of(declaration(0))), store)


def events(**spans: tuple[int, int]) -> Ranges:
    return {"events": {partition[1:]: span for partition, span in spans.items()}}


@pytest.mark.parametrize(
    ("pinned", "says"),
    [
        (events(p0=(12, 20), p1=(20, 40)), "a gap: topic events partition 0 continues at offset 12, .* at 10"),
        (events(p0=(10, 20), p1=(19, 40)), "an overlap: topic events partition 1 continues at offset 19, .* at 20"),
        (events(p0=(10, 20)), "a missing partition: topic events partition 1"),
        ({"others": {"0": (0, 5)}}, "a missing partition: topic events partition 0"),
        (events(p0=(10, 20), p1=(20, 40), p2=(3, 4)), "a gap: topic events partition 2 continues at offset 3, .* at 0"),
        ({**ranges(1), "others": {"0": (3, 4)}}, "a gap: topic others partition 0 continues at offset 3, .* at 0"),
        (
            events(p0=(10, 9), p1=(20, 40)),
            r"no range of offsets: topic events partition 0 from 10 to 9 \(.*checkpoint folder",
        ),
    ],
)
def test_ranges_that_do_not_adjoin_the_chain_are_refused(pinned: Ranges, says: str) -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 1)
    with pytest.raises(ChainError, match=says):
        run(chain.declare(LAYOUT, held, declaration(1, pinned), None, 0), store)
    with pytest.raises(ChainError, match=says):
        continuity.classify(held.head, pinned, "batch 1")
    assert run(chain.read(LAYOUT), store) == held.head


@pytest.mark.parametrize("span", [(0, -1), (7, 6), (-3, 2)])
def test_the_first_ranges_go_forward_too(span: tuple[int, int]) -> None:
    store = MemoryStore()
    held = taken(store)
    with pytest.raises(ChainError, match=f"topic events partition 0 from {span[0]} to {span[1]}"):
        run(chain.declare(LAYOUT, held, declaration(0, {"events": {"0": span}}), None, 0), store)
    assert run(chain.read(LAYOUT), store) == held.head


def test_a_partition_that_is_new_begins_at_offset_0() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 1)
    grown = {"events": {**ranges(1)["events"], "2": (0, 4)}, "others": {"0": (0, 3)}}
    assert run(chain.declare(LAYOUT, held, declaration(1, grown), None, 0), store).head.declared == declaration(
        1, grown
    )


def test_a_batch_is_recorded_declared_or_new() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 3)
    assert [continuity.classify(held.head, ranges(epoch), "here") for epoch in range(4)] == ["recorded"] * 3 + ["new"]
    head = run(chain.declare(LAYOUT, held, declaration(3), None, 0), store).head
    assert [continuity.classify(head, ranges(epoch), "here") for epoch in (1, 3)] == ["recorded", "declared"]
    with pytest.raises(ChainError, match="a batch does not repeat epoch 3, which is declared"):
        continuity.classify(head, ranges(4), "here")


@given(st.integers(0, 80), st.integers(0, 80), st.integers(-5, 25), st.integers(1, 20))
def test_what_is_called_new_begins_exactly_where_the_chain_ends(end_0: int, end_1: int, shift: int, size: int) -> None:
    store = MemoryStore()
    held = run(
        chain.declare(LAYOUT, taken(store), declaration(0, {"t": {"0": (0, end_0), "1": (0, end_1)}}), None, 0), store
    )
    assert held.head.declared is not None
    published = record_of(held.head.declared)
    head = run(chain.record(LAYOUT, held, published), store).head
    batch: Ranges = {"t": {"0": (end_0, end_0 + size), "1": (end_1 + shift, end_1 + shift + size)}}
    if shift == 0:
        assert continuity.classify(head, batch, "here") == "new"
    else:
        with pytest.raises(ChainError, match="a gap" if shift > 0 else "an overlap"):
            continuity.classify(head, batch, "here")


def test_the_floor_never_sinks() -> None:
    store = MemoryStore()
    held, published = taken(store), None
    seen = []
    for epoch, floor in enumerate([0, 3, 1, 0, 4, 2]):
        held = run(chain.declare(LAYOUT, held, declaration(epoch), published, floor), store)
        published = record_of(declaration(epoch))
        seen.append(held.head.floor)
    assert seen == [0, 3, 3, 3, 4, 4]
    assert taken(store, "second").head.floor == 4


def test_an_epoch_declared_by_another_wheel_is_not_finished() -> None:
    store = MemoryStore()
    held = taken(store)
    pinned_version.same_version(held.head, "b" * 64, "here")  # nothing declared: any version may go on
    declared = run(chain.declare(LAYOUT, held, declaration(0), None, 0), store).head
    pinned_version.same_version(declared, "a" * 64, "here")
    with pytest.raises(VersionError, match="epoch 0 was declared by wheel aaaaaaaaaaaa, this is wheel bbbbbbbbbbbb"):
        pinned_version.same_version(declared, "b" * 64, "here")


RUNTIME = {"jars": "0" * 16, "pyarrow": "21.0.0", "spark": "4.2.0"}


def test_an_epoch_declared_on_another_runtime_is_not_finished_and_what_differs_is_named() -> None:
    store = MemoryStore()
    pinned = declaration(0).model_copy(update={"runtime": RUNTIME})
    declared = run(chain.declare(LAYOUT, taken(store), pinned, None, 0), store).head
    pinned_version.same_version(declared, "a" * 64, "here", RUNTIME)
    with pytest.raises(VersionError) as refused:
        pinned_version.same_version(declared, "a" * 64, "here", {**RUNTIME, "pyarrow": "22.0.0", "spark": "4.2.1"})
    assert refused.value.what == (
        "epoch 0 was declared by wheel aaaaaaaaaaaa on pyarrow 21.0.0, spark 4.2.0, "
        "this is wheel aaaaaaaaaaaa on pyarrow 22.0.0, spark 4.2.1"
    )
    pinned_version.same_version(declared, "a" * 64, "here", {"numpy": "2"})  # a command that says less
    abandoned = run(interventions.abandon(LAYOUT, taken(store, "operator")), store).head
    pinned_version.same_version(abandoned, "a" * 64, "here", {"spark": "5"})
    store = MemoryStore()
    older = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store).head
    pinned_version.same_version(older, "a" * 64, "here", RUNTIME)  # of a version that did not tell


OLD_IMAGE = "registry.example/team/effectively-once-spark:4f1c0a9b27de"


def refusal_of(runtime: dict[str, str], *, pinned: dict[str, str], wheel: str = "b" * 64) -> VersionError:
    """Return what a start says of an epoch of wheel a that pinned a runtime."""
    store = MemoryStore()
    declared = declaration(0).model_copy(update={"runtime": pinned})
    head = run(chain.declare(LAYOUT, taken(store), declared, None, 0), store).head
    with pytest.raises(VersionError) as refused:
        pinned_version.same_version(decode(head.encode(), "here"), wheel, "here", runtime)
    return refused.value


def test_who_refuses_an_epoch_names_the_image_that_finishes_it_and_the_command() -> None:
    newer = {**RUNTIME, "pyarrow": "22.0.0", "image": "registry.example/team/effectively-once-spark:77e0"}
    refused = refusal_of(newer, pinned={**RUNTIME, "image": OLD_IMAGE})
    assert refused.what == (
        "epoch 0 was declared by wheel aaaaaaaaaaaa on pyarrow 21.0.0, this is wheel bbbbbbbbbbbb on pyarrow 22.0.0"
    )
    todo = (
        f"Its image finishes it: `pulumi config set --path pipelines.counts.image {OLD_IMAGE} && pulumi up` (there the "
        "pipeline has its name without `pipeline_prefix`; `extra_files` as they were). Then put the setting back, and "
        "`pulumi up`. If that cannot be had, or cannot finish it: `effectively-once abandon`."
    )
    assert refused.todo == todo
    same_wheel = refusal_of(newer, pinned={**RUNTIME, "image": OLD_IMAGE}, wheel="a" * 64)
    assert same_wheel.todo == todo


def test_without_an_image_it_is_told_what_there_is_to_run_once_more() -> None:
    """A record of before names none, nor does one of `make run`."""
    for pinned in ({}, RUNTIME):
        refused = refusal_of({**RUNTIME, "image": OLD_IMAGE}, pinned=pinned)
        assert refused.what == "epoch 0 was declared by wheel aaaaaaaaaaaa, this is wheel bbbbbbbbbbbb"
        assert refused.todo == (
            "Run once more what declared it, until the epoch is recorded: with `make run` your files as they were, on "
            "a cluster the former image (`pipelines.<name>.image`), elsewhere that wheel on that runtime. Then start "
            "this version. If that cannot be had, or cannot finish it: `effectively-once abandon`."
        )


def test_the_same_image_of_another_registry_is_the_same_version() -> None:
    store = MemoryStore()
    pinned = declaration(0).model_copy(update={"runtime": {**RUNTIME, "image": OLD_IMAGE}})
    declared = run(chain.declare(LAYOUT, taken(store), pinned, None, 0), store).head
    pinned_version.same_version(declared, "a" * 64, "here", {**RUNTIME, "image": "mirror.example/spark:4f1c0a9b27de"})
    assert pinned_version.describe(pinned) == f"wheel aaaaaaaaaaaa of image {OLD_IMAGE}"
    assert pinned_version.describe(declaration(0)) == "wheel aaaaaaaaaaaa"


def test_the_watermark_to_pin_is_the_largest_accepted_time_and_never_sinks() -> None:
    store = MemoryStore()
    head = taken(store).head
    assert head.watermark_ms is None
    for watermark_ms, latest_ms, expected in ((None, None, None), (None, 7, 7), (9, 7, 9), (9, 12, 12), (9, None, 9)):
        declared = declaration(0).model_copy(update={"watermark_ms": watermark_ms})
        record = record_of(declared).model_copy(update={"max_event_time_ms": latest_ms})
        assert head.model_copy(update={"tail": (record,)}).watermark_ms == expected
