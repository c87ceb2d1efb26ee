"""What a recorded step gave is used by every repeat, and by nobody for other rows (R4)."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import pickle
import random
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.epoch.recorded import collect, recorded
from effectively_once.errors import ChainError, SettingsError, SinkError, StepError, VersionError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.state import deltas
from infra.cluster.access import CHECKOUT
from tests.unit.ledger.memory_store import Fate, MemoryStore

LAYOUT = Layout("orders")
KEY = LAYOUT.recorded("rate", 3, 1)
ADDS = pa.schema([("rate", pa.float64()), ("quote", pa.string())])
PAGE = CHECKOUT / "docs" / "explanation" / "stable-input.md"


class Unsteady:
    """A function that answers otherwise at every call; `calls` counts them."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rows: pa.Table) -> pa.Table:
        self.calls += 1
        rates = [self.calls + 0.5] * rows.num_rows
        return pa.table({"rate": rates, "quote": [f"{self.calls}-{n}" for n in range(rows.num_rows)]})


def rows_of(*ids: str, amount: int | None = 5) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "offset": pa.array(range(len(ids)), pa.int64()),
            "amount": pa.array([amount] * len(ids), pa.int64()),
        }
    )


def ask(
    store: MemoryStore, function: Callable[[pa.Table], Any], rows: pa.Table | None = None, adds: pa.Schema = ADDS
) -> tuple[pa.Table, bool]:
    step = RecordedStep("rate", function, adds)
    return recorded(step, store, LAYOUT, epoch=3, shard=1, rows=rows_of("a", "b") if rows is None else rows)


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


def test_other_epochs_shards_and_steps_have_answers_of_their_own() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    for name, epoch, shard in itertools.product(("rate", "other"), (3, 4), (0, 1)):
        step = RecordedStep(name, unsteady, ADDS)
        assert not recorded(step, store, LAYOUT, epoch=epoch, shard=shard, rows=rows_of("a"))[1]
    assert unsteady.calls == len(store.objects) == 8


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
        both, _ = recorded(after, store, LAYOUT, epoch=3, shard=1, rows=rated)
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


@settings(max_examples=300)
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
        deltas.encoded(rows_of("a")),
        deltas.encoded(rows_of("a").replace_schema_metadata({"k": "v"})),
        deltas.encoded(rows_of("a").replace_schema_metadata({"effectively_once.recorded": '{"step": "rate"}'})),
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
    recorded(RecordedStep(name, unsteady, ADDS), store, LAYOUT, epoch=epoch, shard=shard, rows=rows_of("a", "b"))
    store.objects[KEY] = store.objects[LAYOUT.recorded(name, epoch, shard)]
    with pytest.raises(ChainError, match=f"it is of step '{name}', epoch {epoch}, shard {shard} .{KEY}"):
        ask(store, unsteady)


def test_a_record_with_other_columns_than_the_step_adds_is_another_version() -> None:
    store = MemoryStore()
    ask(store, Unsteady())
    with pytest.raises(VersionError, match=r"adds rate \(float\), and has recorded rate \(double\), quote \(string\)"):
        ask(store, Unsteady(), adds=pa.schema([("rate", pa.float32())]))


GIVEN: dict[str, tuple[Any, str]] = {
    "nothing": (None, "a NoneType"),
    "no table": ({"rate": [1.0, 2.0]}, "a dict"),
    "a row less": (pa.table({"rate": [1.0], "quote": ["x"]}), "1 rows for 2"),
    "a row more": (pa.table({"rate": [1.0] * 3, "quote": ["x"] * 3}), "3 rows for 2"),
    "no columns": (pa.table({}), "0 rows for 2; the columns none"),
    "a column less": (pa.table({"rate": [1.0, 2.0]}), "the columns rate"),
    "its own rows": (rows_of("a", "b"), "the columns id, offset, amount"),
    "a column twice": (pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2, ["rate", "rate"]), "the columns rate, rate"),
    "a column more": (
        pa.table({"rate": [1.0] * 2, "quote": ["x"] * 2, "other": [0] * 2}),
        "the columns rate, quote, other",
    ),
    "another type": (pa.table({"rate": [1, 2], "quote": ["x", "y"]}), "rate is int64, not double"),
    "two other types": (
        pa.table({"rate": [1, 2], "quote": [b"x", b"y"]}),
        "rate is int64, not double; quote is binary, not string",
    ),
    "no text": (
        pa.table({"rate": [1.0, 2.0], "quote": pa.array([b"\xff", b"y"]).view(pa.string())}),
        "invalid values: .*UTF",
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_another_answer_than_declared_is_refused_by_the_steps_name_and_not_recorded(name: str) -> None:
    store = MemoryStore()
    given, told = GIVEN[name]
    with pytest.raises(
        StepError, match=f"recorded step 'rate' gave something else than it declares: {told}"
    ) as refused:
        ask(store, lambda _: given)
    assert refused.value.todo.endswith("with the columns rate (double), quote (string).")
    assert refused.value.where == KEY
    assert store.objects == {}


def test_a_null_is_refused_where_the_step_declares_none() -> None:
    given = pa.table({"rate": [1.0, None], "quote": [None, None]}, schema=ADDS)
    strict = pa.schema([pa.field("rate", pa.float64(), nullable=False), ("quote", pa.string())])
    with pytest.raises(StepError, match="rate is null in 1 rows"):
        ask(MemoryStore(), lambda _: given, adds=strict)
    assert ask(MemoryStore(), lambda _: given)[0]["quote"].null_count == 2


def test_columns_may_come_in_another_order_than_declared() -> None:
    added, _ = ask(MemoryStore(), lambda _: pa.table({"quote": ["x", "y"], "rate": [1.0, 2.0]}))
    assert added.column_names == ["id", "offset", "amount", "rate", "quote"]
    assert added["quote"].to_pylist() == ["x", "y"]


def unreachable(rows: pa.Table) -> pa.Table:
    json.loads("no\njson")
    return rows


def test_an_exception_of_the_function_tells_where_it_arose_and_nothing_is_recorded() -> None:
    """The line told is that of the user's file, also when a library raised."""
    store, unsteady = MemoryStore(), Unsteady()
    line = unreachable.__code__.co_firstlineno + 1
    with pytest.raises(StepError) as refused:
        ask(store, unreachable)
    assert str(refused.value).startswith(
        f"recorded step 'rate' raised JSONDecodeError in unreachable (test_stable.py:{line}): Expecting value: "
    )
    assert refused.value.where == f"{KEY}, 2 rows"
    assert isinstance(refused.value.__cause__, json.JSONDecodeError)
    assert store.objects == {}
    assert ask(store, unsteady)[1] is False


def test_a_function_without_source_that_raises_is_named_too() -> None:
    with pytest.raises(StepError, match="recorded step 'rate' raised TypeError: "):
        ask(MemoryStore(), int)


def test_for_no_rows_nothing_is_called_recorded_or_looked_up() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    added, replayed = ask(store, unsteady, rows_of())
    assert added.schema == pa.schema([*rows_of().schema, *ADDS])
    assert (added.num_rows, replayed, unsteady.calls, store.requests) == (0, False, 0, [])


def test_only_the_named_steps_records_of_one_epoch_are_collected() -> None:
    """By their names; nothing is listed."""
    store, unsteady = MemoryStore(), Unsteady()
    for name, epoch, shard in itertools.product(("rate", "other", "kept"), (2, 3, 4), (0, 1)):
        step = RecordedStep(name, unsteady, ADDS)
        recorded(step, store, LAYOUT, epoch=epoch, shard=shard, rows=rows_of("a"))
    before, asked = set(store.objects), len(store.requests)
    collect(["rate", "other"], store, LAYOUT, epoch=3, shards=3)
    gone = {LAYOUT.recorded(name, 3, shard) for name in ("rate", "other") for shard in (0, 1)}
    assert before - set(store.objects) == gone
    assert store.requests[asked:] == [
        Delete(LAYOUT.recorded(name, 3, shard)) for name in ("rate", "other") for shard in (0, 1, 2)
    ]


def test_a_column_that_is_there_already_is_refused() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    with pytest.raises(SettingsError, match=r"adds columns that are there already: quote .recorded step 'rate'"):
        ask(store, unsteady, rows_of("a").append_column("quote", pa.array(["x"])))
    assert (unsteady.calls, store.requests) == (0, [])


@pytest.mark.parametrize("name", ["", "Rate", "1rate", "a/b", "a-b", "_a", "a" * 42, "rate\n"])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"at most 41, beginning with a letter .recorded step "):
        RecordedStep(name, Unsteady(), ADDS)


@pytest.mark.parametrize(
    ("adds", "told"),
    [
        (pa.schema([]), "at least one column"),
        (pa.schema([("a", pa.int64()), ("b", pa.int64()), ("a", pa.string())]), "each column once, not a, b, a"),
    ],
)
def test_no_columns_or_one_twice_are_refused(adds: pa.Schema, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        RecordedStep("a" * 41, Unsteady(), adds)


def test_a_step_survives_the_way_to_a_worker() -> None:
    step = RecordedStep("rate", unreachable, ADDS)
    assert pickle.loads(pickle.dumps(step)) == step  # noqa: S301 - bytes of our own


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
    first, _ = recorded(names["RATED"], store, LAYOUT, epoch=0, shard=0, rows=rows)
    assert recorded(names["RATED"], store, LAYOUT, epoch=0, shard=0, rows=rows) == (first, True)
    assert [value is None for value in first["rate"].to_pylist()] == [False, True]


def test_it_is_told_where_the_code_has_answered_and_nothing_is_recorded() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    seen: list[tuple[int, bool]] = []
    step = RecordedStep("rate", unsteady, ADDS)
    for _ in range(2):
        recorded(
            step,
            store,
            LAYOUT,
            epoch=3,
            shard=1,
            rows=rows_of("a"),
            answered=lambda: seen.append((unsteady.calls, KEY in store.objects)),
        )
    assert seen == [(1, False)], "a repeat that reads the record has nobody to ask"
