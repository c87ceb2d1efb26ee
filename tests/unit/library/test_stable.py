"""What a recorded step gave is used by every repeat, and by nobody for other rows (R4)."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.epoch.recorded import add_recorded, records_of
from effectively_once.errors import ChainError, SinkError, VersionError
from effectively_once.ledger.objects import Delete, delete_all, run
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.state import deltas
from infra.cluster.access import CHECKOUT
from tests.depth import examples
from tests.unit.ledger.memory_store import Fate, MemoryStore
from tests.unit.library.unsteady_step import ADDS, KEY, LAYOUT, Unsteady, ask, rows_of

PAGE = CHECKOUT / "docs" / "explanation" / "stable-input.md"


def sealed(stream: bytes) -> bytes:
    return stream + blake2b(stream, digest_size=16).digest()


def test_a_repeat_uses_the_recorded_answer_and_does_not_run_the_code_again() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    first, replayed = ask(store, unsteady)
    assert first.to_pydict() == {
        "id": ["a", "b"],
        "offset": [0, 1],
        "amount": [5, 5],
        "rate": [1.5, 1.5],
        "quote": ["1-0", "1-1"],
    }
    assert not replayed
    for _ in range(3):
        assert ask(store, unsteady) == (first, True)
    assert unsteady.calls == 1


def test_an_attempt_that_is_overtaken_while_the_code_runs_uses_the_winners_answer() -> None:
    """Both have found no record; the second one is quicker."""
    store, second = MemoryStore(), []

    def overtaken(rows: pa.Table) -> pa.Table:
        second.append(ask(store, lambda rows: pa.table({"rate": [2.0] * rows.num_rows, "quote": ["winner"] * 2})))
        return pa.table({"rate": [1.0] * rows.num_rows, "quote": ["loser"] * 2})

    first = ask(store, overtaken)
    assert second[0][0]["quote"].to_pylist() == ["winner", "winner"]
    assert (second[0][1], first[1]) == (False, True)
    assert first[0] == second[0][0]


@given(st.lists(st.sampled_from(Fate), max_size=10))
def test_whatever_answers_get_lost_all_attempts_return_one_answer(fates: list[Fate]) -> None:
    store, unsteady = MemoryStore(fates), Unsteady()
    answers = [ask(store, unsteady)[0] for _ in range(3)]
    assert all(answer == answers[0] for answer in answers)
    assert unsteady.calls == 1


def test_a_second_step_is_given_what_the_first_one_recorded() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    after = RecordedStep(
        "after",
        lambda rows: pa.table({"twice": [2 * r for r in rows["rate"].to_pylist()]}),
        pa.schema([("twice", pa.float64())]),
    )
    for _ in range(2):
        rated, _ = ask(store, unsteady)
        both, _ = add_recorded(after, store, LAYOUT, epoch=3, shard=1, rows=rated)
        assert both["twice"].to_pylist() == [3.0, 3.0]


REFUSED_ROWS = {
    "another id": (rows_of("a", "x"), "id differ"),
    "another order": (rows_of("b", "a"), "id differ"),
    "a row less": (rows_of("a"), "1 rows, the record is for 2"),
    "a row more": (rows_of("a", "b", "c"), "3 rows, the record is for 2"),
    "another value": (rows_of("a", "b", amount=6), "amount differ"),
    "no value": (rows_of("a", "b", amount=None), "amount differ"),
    "a column less": (rows_of("a", "b").drop_columns(["amount"]), "amount differ"),
    "a column more": (rows_of("a", "b").append_column("now", pa.array([1, 2])), "now differ"),
    "two columns": (rows_of("a", "c", amount=6), "id, amount differ"),
}


@pytest.mark.parametrize("name", REFUSED_ROWS)
def test_a_record_is_refused_for_other_rows_and_what_precedes_is_named_as_not_deterministic(name: str) -> None:
    store, unsteady = MemoryStore(), Unsteady()
    ask(store, unsteady)
    kept = dict(store.objects)
    rows, difference = REFUSED_ROWS[name]
    told = f"repeat of epoch 3 brought other rows to recorded step 'rate', shard 1: {difference}.*{KEY}.*precedes the"
    with pytest.raises(SinkError, match=f"{told} step is not deterministic"):
        ask(store, unsteady, rows)
    assert (store.objects, unsteady.calls) == (kept, 1)


def test_rows_that_only_lie_otherwise_in_memory_are_the_same_rows() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    ask(store, unsteady)
    assert ask(store, unsteady, pa.concat_tables([rows_of("a"), rows_of("x", "b").slice(1)]))[1]


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32), st.floats(0, 1), st.booleans())
def test_any_damage_to_a_record_is_refused(seed: int, where: float, cut: bool) -> None:
    store, unsteady = MemoryStore(), Unsteady()
    ask(store, unsteady)
    whole = store.objects[KEY]
    place, rng = int(where * (len(whole) - 1)), random.Random(seed)
    flipped = bytes([whole[place] ^ rng.randrange(1, 256)])
    store.objects[KEY] = whole[:place] if cut else whole[:place] + flipped + whole[place + 1 :]
    with pytest.raises(ChainError, match=rf"a record of a step is damaged: .*{KEY}.*Do not delete it"):
        ask(store, unsteady)
    assert unsteady.calls == 1


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"text",
        deltas.encode(rows_of("a")),
        deltas.encode(rows_of("a").replace_schema_metadata({"k": "v"})),
        deltas.encode(rows_of("a").replace_schema_metadata({"effectively_once.recorded": '{"step": "rate"}'})),
    ],
    ids=["nothing", "text", "no metadata", "other metadata", "half of it"],
)
def test_an_object_that_is_whole_and_no_record_is_refused(stream: bytes) -> None:
    store = MemoryStore()
    store.objects[KEY] = sealed(stream)
    with pytest.raises(ChainError, match=f"a record of a step is damaged: .*{KEY}") as refused:
        ask(store, Unsteady())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "epoch", "shard"), [("other", 3, 1), ("rate", 4, 1), ("rate", 3, 0)])
def test_a_record_that_was_copied_to_another_name_is_refused(name: str, epoch: int, shard: int) -> None:
    store, unsteady = MemoryStore(), Unsteady()
    add_recorded(RecordedStep(name, unsteady, ADDS), store, LAYOUT, epoch=epoch, shard=shard, rows=rows_of("a", "b"))
    store.objects[KEY] = store.objects[LAYOUT.step_record(name, epoch, shard)]
    with pytest.raises(ChainError, match=f"it is of step '{name}', epoch {epoch}, shard {shard} .{KEY}"):
        ask(store, unsteady)


def test_a_record_with_other_columns_than_the_step_adds_is_another_version() -> None:
    store = MemoryStore()
    ask(store, Unsteady())
    with pytest.raises(VersionError, match=r"adds rate \(float\), and has recorded rate \(double\), quote \(string\)"):
        ask(store, Unsteady(), adds=pa.schema([("rate", pa.float32())]))


def test_each_step_epoch_and_shard_has_a_record_of_its_own_and_those_of_one_epoch_are_collected() -> None:
    """By their names; nothing is listed."""
    store, unsteady = MemoryStore(), Unsteady()
    for name, epoch, shard in itertools.product(("rate", "other", "kept"), (2, 3, 4), (0, 1)):
        step = RecordedStep(name, unsteady, ADDS)
        assert not add_recorded(step, store, LAYOUT, epoch=epoch, shard=shard, rows=rows_of("a"))[1]
    assert unsteady.calls == len(store.objects) == 18
    before, asked = set(store.objects), len(store.requests)
    run(delete_all(records_of(["rate", "other"], LAYOUT, epoch=3, shards=3)), store)
    deleted = [LAYOUT.step_record(name, 3, shard) for name in ("rate", "other") for shard in (0, 1, 2)]
    assert before - set(store.objects) == before & set(deleted)
    assert store.requests[asked:] == [Delete(key) for key in deleted]


UTC_TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(dt.UTC))
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(max_size=20),
    pa.float64(): st.floats(),
    pa.binary(): st.binary(max_size=20),
    pa.timestamp("us", "UTC"): UTC_TIMES,
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.list_(pa.float64()): st.lists(st.floats(), max_size=3),
}


@given(st.data())
def test_values_of_every_type_come_back_as_they_were_given(data: st.DataObject) -> None:
    """From the first attempt and from its repeat alike; NaN and nulls too."""
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    number = data.draw(st.integers(1, 5))
    adds = pa.schema([(f"c{place}", kind) for place, kind in enumerate(kinds)])
    columns = [data.draw(st.lists(st.none() | VALUES[kind], min_size=number, max_size=number)) for kind in kinds]
    given_table = pa.table([pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], schema=adds)
    rows = rows_of(*map(str, range(number)))
    # NaN equals nothing, its text does.
    expected = repr([column.to_pylist() for column in given_table.columns])
    store = MemoryStore()
    for replayed in (False, True):
        added, another = ask(store, lambda _: given_table, rows, adds)
        assert another is replayed
        assert added.schema == pa.schema([*rows.schema, *adds])
        assert repr([added[name].to_pylist() for name in adds.names]) == expected


def test_a_record_can_be_read_by_anyone_who_reads_arrow() -> None:
    store = MemoryStore()
    ask(store, Unsteady())
    table = pa.ipc.open_stream(store.objects[KEY]).read_all()
    assert table.to_pydict() == {"rate": [1.5, 1.5], "quote": ["1-0", "1-1"]}
    about = json.loads(table.schema.metadata[b"effectively_once.recorded"])
    assert (about["step"], about["epoch"], about["shard"], about["rows"]) == ("rate", 3, 1, 2)
    assert list(about["made_for"]) == ["id", "offset", "amount"]


def test_the_example_of_the_documentation_works() -> None:
    code = PAGE.read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - a page of ours
    assert isinstance(names["RATED"], RecordedStep)
    rows, store = pa.table({"id": ["a", "b"], "currency": ["CHF", None]}), MemoryStore()
    first, _ = add_recorded(names["RATED"], store, LAYOUT, epoch=0, shard=0, rows=rows)
    assert add_recorded(names["RATED"], store, LAYOUT, epoch=0, shard=0, rows=rows) == (first, True)
    assert [value is None for value in first["rate"].to_pylist()] == [False, True]


def test_it_is_told_where_the_code_has_answered_and_nothing_is_recorded() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    seen: list[tuple[int, bool]] = []
    step = RecordedStep("rate", unsteady, ADDS)
    for _ in range(2):
        add_recorded(
            step,
            store,
            LAYOUT,
            epoch=3,
            shard=1,
            rows=rows_of("a"),
            answered=lambda: seen.append((unsteady.calls, KEY in store.objects)),
        )
    assert seen == [(1, False)], "a repeat that reads the record has nobody to ask"
