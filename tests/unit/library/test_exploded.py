"""Records of several rows: what a shard makes of them, and that rows and records both add up."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once import Collect, Explode, First, Last, Pipeline, RecordedStep, ToKafka, ToTable, Windowed
from effectively_once.epoch import division, refusals, whole_input
from effectively_once.epoch.summary import Summary
from effectively_once.errors import ControlError, InputError, SettingsError
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.operate.abandon.mending import Mending
from effectively_once.operate.dead_letters.replay import Replay
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.settings import refuse_changed
from effectively_once.sinks.dead_letters import DeadLetter, Selection, of_message
from tests.depth import examples
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.one_epoch import COLUMNS, PIPELINE, STATEFUL, Place, closed, table
from tests.unit.library.test_filtered import NOTE, ids_of
from tests.unit.library.test_replay import MemorySender

EXPLODE = Explode("items", rows_max=4)
EXPLODING = replace(PIPELINE, explode=EXPLODE, filtered=("gift",))


def item(offset: int, pos: int, **row: Any) -> dict[str, Any]:
    return {"offset": offset, "pos": pos, "id": f"r{offset}#{pos}", **row}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"explode": "items"}, r"explode is Explode, or None, not 'items'"),
    ({"explode": Explode("id", 1)}, "explode is of 'id', which no column of the transform may be called"),
    ({"explode": Explode("a b", 1)}, "explode is of 'a b', which no column"),
    ({"explode": Explode("Amount", 1)}, "column 'Amount' is exploded: declare the fields of its elements"),
    ({"columns": pa.schema([*COLUMNS, ("Pos", pa.int32())])}, "column 'Pos' is the library's own with explode"),
    ({"ids": "coordinates", "windows": ()}, "explode needs ids='attached'"),
    ({"windows": (), "stateful": STATEFUL.stateful}, "a pipeline has explode or a stateful query, not both"),
    *(
        (
            {"windows": (Windowed("user", {"v": value}, ToKafka("w")),)},
            f"value 'v' of windows 'w' is {type(value).__name__}, which is not possible with explode",
        )
        for value in (First("amount"), Last("amount"), Collect("amount", most=3))
    ),
]


@pytest.mark.parametrize(("change", "says"), WRONG)
def test_what_does_not_go_together_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=f"^{says}"):
        replace(PIPELINE, **{"explode": EXPLODE, **change})


@pytest.mark.parametrize("most", [0, 10_001])
def test_a_bound_of_rows_is_one(most: int) -> None:
    with pytest.raises(SettingsError, match=f"^rows_max is at least 1 and at most 10,000, not {most}"):
        Explode("items", most)


def test_only_who_declares_it_has_the_column_and_other_ids() -> None:
    """State depends on it: a pipeline of this name cannot begin, or end, to have several rows."""
    assert "pos" in EXPLODING.row_schema.names
    assert "pos" not in PIPELINE.row_schema.names
    assert (EXPLODING.digested, PIPELINE.digested) == (("partition", "offset", "pos"), ("partition", "offset"))
    assert EXPLODING.bound == {**PIPELINE.bound, "explode": True}
    for began, goes_on in ((PIPELINE, EXPLODING), (EXPLODING, PIPELINE)):
        refuse_changed(began.bound, began.bound, "head")
        with pytest.raises(SettingsError, match=r"^explode was (True|False) when this pipeline began and is"):
            refuse_changed(began.bound, goes_on.bound, "head")
    authors = replace(PIPELINE, columns=pa.schema([*COLUMNS, ("pos", pa.int32())]))
    assert authors.coordinates.names == ["topic", "partition", "offset"]


def test_rows_and_records_add_up_and_each_row_is_told_with_its_place() -> None:
    rows = [
        item(1, 1),
        item(1, 0),
        item(2, 0, reason="bad", value=b"?"),
        item(3, 2, reason="late", value=b"!"),
        item(3, 0, reason="filtered", filtered="gift"),
        item(3, 1),
        item(4, 0, id="r1#0"),
        item(4, 1, id="r1#1"),
    ]
    place = Place()
    _, told = place.dedup(table(rows, EXPLODING), EXPLODING)
    parts = [told[name] for name in ("accepted", "duplicate", "late", "malformed")]
    assert (parts, told["filtered"]) == ([3, 2, 1, 1], {"gift": 1})
    assert told["read"] == sum(parts) + 1 == len(rows)
    assert (told["records"], told["came"]) == (4, 4)
    shown = [json.loads(value) for _, value in place.published["accepted", 0]]
    assert [(row["source"][2], row["pos"], row["id"]) for row in shown] == [
        (1, 0, "r1#0"),
        (1, 1, "r1#1"),
        (3, 1, "r3#1"),
    ]
    letters = [json.loads(value) for _, value in place.published[DEAD_LETTER, 0]]
    assert [(row["source"][2], row["pos"], row["value"]) for row in letters] == [(2, 0, "?"), (3, 2, "!")]
    again = [item(9, 0, id="r1#0"), item(9, 1, id="r3#2")]
    _, told = place.dedup(table(again, EXPLODING), EXPLODING, number=1, named=ids_of(told))
    assert (told["accepted"], told["duplicate"]) == (1, 1), "what was late has taken no id"


@settings(max_examples=examples(60))
@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 10**6), st.integers(1, 40))
def test_a_shard_takes_whole_records_and_every_part_the_same(sizes: list[int], seed: int, bound: int) -> None:
    """In whatever order rows come, and however they are divided among shards: no record is cut."""
    chance = random.Random(seed)
    whole = [item(n, pos, value=b"x" * chance.randint(0, 9)) for n, size in enumerate(sizes) for pos in range(size)]
    mine = [row for row in whole if chance.random() < 0.8]
    rows = table(mine, EXPLODING)
    parts = []
    for _ in range(3):
        order = list(range(rows.num_rows))
        chance.shuffle(order)
        place = Place()
        step = place.step(place.task(EXPLODING, bytes_max=bound))
        mixed = rows.take(pa.array(order, pa.int64()))
        parts.append(division.input_of(step, mixed.to_batches(max_chunksize=2)))
    first = parts[0]
    assert all(
        (one.rows, one.came, one.left, one.records) == (first.rows, first.came, first.left, first.records)
        for one in parts
    )
    taken = [(row["offset"], row["pos"]) for row in first.rows.to_pylist()]
    all_of_it = sorted((row["offset"], row["pos"]) for row in mine)
    assert taken == all_of_it[: len(taken)]
    assert first.records == sum(pos == 0 for _, pos in all_of_it)
    if first.left is None:
        assert taken == all_of_it
    else:
        assert all_of_it[len(taken)][0] == first.left[2] > taken[-1][0], "the rest begins with a record"
        place = Place()
        rest = place.step(place.task(EXPLODING, bytes_max=1 << 40, repairs=0, after={"0": first.left}))
        assert (
            taken + [(row["offset"], row["pos"]) for row in division.input_of(rest, rows.to_batches()).rows.to_pylist()]
            == all_of_it
        )


def test_the_proof_of_the_input_knows_the_rows_of_a_record_apart() -> None:
    """One that is lost and one that is there twice are no rows of their record (R13)."""
    rows = table([item(1, 0), item(1, 1), item(1, 2)], EXPLODING)
    batches = closed(rows, EXPLODING.digested)
    assert sum(batch.num_rows for batch in whole_input.require(batches, EXPLODING.digested, "here")) == 3
    wrong = pa.Table.from_batches(batches).take([0, 1, 1, 3]).to_batches()
    with pytest.raises(InputError, match="their digest differs"):
        whole_input.require(wrong, EXPLODING.digested, "here")


def recorded(*notes: dict[str, Any]) -> EpochRecord:
    summary = Summary(range(len(notes)), [{**NOTE, **note} for note in notes])
    summary._sinks = {"totals": {"0": record_of(declaration(0)).sinks["accepted"]["0"]}}
    return summary.record(declaration(4), 1, EXPLODING, len(notes))


def test_an_epochs_record_has_the_records_of_all_shards_and_without_several_rows_it_is_written_as_before() -> None:
    record = recorded({"records": 2}, {"records": 0})
    assert record.records == 2
    assert EpochRecord(**record.model_dump(by_alias=True)) == record
    assert recorded({"records": 0}).model_dump()["records"] == 0
    assert "records" not in recorded({}).model_dump(by_alias=True)
    former = {name: value for name, value in recorded({}).model_dump(by_alias=True).items() if name != "records"}
    assert EpochRecord(**former).checksum == recorded({}).checksum


@pytest.mark.parametrize(("records", "rows"), [((2, 0), "2 records of 4"), ((3, 2), "5 records of 4")])
def test_an_epoch_that_read_other_records_than_its_offsets_is_refused(records: tuple[int, int], rows: str) -> None:
    """However many rows they have: of one record rows come to several shards, and its first to one."""
    pinned = declaration(4).model_copy(update={"ranges": {"t": {"0": (0, 4)}}})
    Summary(range(1), [{**NOTE, "records": 4, "came": 4, "read": 9}]).require_every_offset(pinned, dense=True)
    notes = [{**NOTE, "records": number, "came": number, "read": 7} for number in records]
    with pytest.raises(InputError, match=f"^the shards read {rows} offsets"):
        Summary(range(2), notes).require_every_offset(pinned, dense=True)


def test_a_table_refuses_a_row_and_not_its_record() -> None:
    pipeline = replace(EXPLODING, filtered=())
    rows = table([item(1, 0), item(1, 1), item(2, 0, id="r1#1")], pipeline)
    refused = refusals.Refusals({"t/0/1/1": "refused_by_table orders: least"}, {})
    marked = refusals.mark(rows, refused, pipeline.coordinates.names)["reason"].to_pylist()
    assert [why is None for why in marked] == [True, False, False], "its copies go the same way"
    left = refusals.without(rows, refused, pipeline.coordinates.names)
    assert [(row["offset"], row["pos"]) for row in left.to_pylist()] == [(1, 0), (2, 0)]


def test_a_recorded_step_answers_by_row() -> None:
    step = RecordedStep("nth", lambda rows: pa.table({"n": rows["pos"].cast(pa.int64())}), "n bigint")
    pipeline = Pipeline(
        lambda frame: frame, COLUMNS, rows=(ToKafka("accepted"), ToTable("orders")), explode=EXPLODE, recorded=step
    )
    place = Place()
    for _ in range(2):
        place.dedup(table([item(1, 1), item(1, 0), item(0, 0)], pipeline), pipeline)
        assert [json.loads(value)["n"] for _, value in place.published["accepted", 0]] == [0, 0, 1]


def test_a_replay_sends_a_record_once_however_many_of_its_rows_were_refused() -> None:
    letters = [DeadLetter("bad", f"a#{n}", b"whole", 3, ("events", 0, 7), pos=n) for n in range(3)]
    letters.append(DeadLetter("bad", "b#0", b"other", 3, ("events", 0, 8), pos=0))
    sender = MemorySender()
    done = Replay(sender, ("events",)).run(letters, Selection())
    assert [sent["value"] for sent in sender.sent] == [b"whole", b"other"]
    assert sender.sent[0]["headers"] == [("effectively-once-replay", b"3/events/0/7/0")]
    assert done.left == Counter({"of a record that another of its dead letters sends": 2})


def test_a_dead_letter_is_read_with_its_place_and_those_of_before_without() -> None:
    line = DeadLetter("bad", "a#1", b"v", 3, ("events", 0, 7), pos=1).line()
    found = of_message(line.encode(), (0, 0))
    assert isinstance(found, DeadLetter) and (found.pos, found.coordinate) == (1, "3/events/0/7/1")
    former = {name: value for name, value in json.loads(line).items() if name != "pos"}
    found = of_message(json.dumps(former).encode(), (0, 0))
    assert isinstance(found, DeadLetter) and (found.pos, found.coordinate) == (None, "3/events/0/7")
    assert "pos" not in json.loads(found.line())


def test_a_repair_is_refused_by_name() -> None:
    place = Place()
    mending = Mending(place.task(EXPLODING).layout, MemoryStore(), EXPLODING, (), ())
    with pytest.raises(ControlError, match=r"^a pipeline whose records have several rows"):
        mending.look(declaration(1))
