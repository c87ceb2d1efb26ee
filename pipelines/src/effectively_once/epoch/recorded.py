"""Stable input (R4): what user code that is not deterministic gave for a shard of an epoch, recorded once.

What is recorded is an Arrow stream of the added columns that also tells which rows it was made for, followed by a
checksum. A repeat of the epoch reads it and does not run the code again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from effectively_once.epoch import sealed_stream
from effectively_once.errors import ChainError, SettingsError, SinkError, StepError, VersionError
from effectively_once.ledger import column_digest
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, Step, body_of, create_once, run
from effectively_once.ledger.record import Record
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.state import deltas

_ABOUT = b"effectively_once.recorded"


class _About(Record):
    """What a record tells of itself; `made_for` is the digest of every column of the rows that the step was given."""

    step: str
    epoch: int
    shard: int
    rows: int
    made_for: dict[str, str]


def add_recorded(
    step: RecordedStep,
    store: ObjectStore,
    layout: Layout,
    *,
    epoch: int,
    shard: int,
    rows: pa.Table,
    anew: int | None = None,
    answered: Callable[[], None] = lambda: None,
    faults: Callable[[pa.Table], Iterable[str]] = lambda _: (),
) -> tuple[pa.Table, bool]:
    """Add a step's columns to the accepted rows of a shard: from its record, or else from its function.

    Must be called before anything that depends on the columns is decided or published. For no rows the function is not
    called, and nothing is recorded or looked up.

    Args:
        step: the step.
        store: where it is recorded.
        layout: names of the objects.
        epoch: the declared one.
        shard: that of the rows.
        rows: in source order, the same whenever the epoch is repeated.
        anew: names its record, as of `Declaration.decides`.
        answered: called where the function has given its answer, and nothing is recorded yet.
        faults: says of the added columns what no sink could hold: recorded, it would be there for good.

    Returns:
        The rows with the columns added, and whether another attempt's answer was used.

    Raises:
        StepError: the function raised, gave something else than declared, or what no sink could hold; nothing is
            recorded.
        SinkError: the record was made for other rows: what precedes the step is not deterministic (R4).
        ChainError: the record is damaged.
        VersionError: the record has other columns than the step declares.
        SettingsError: a column that the step adds is there already.

    """
    taken = sorted({*step.adds.names} & {*rows.column_names})
    if taken:
        raise SettingsError(
            f"it adds columns that are there already: {', '.join(taken)}",
            f"recorded step {step.name!r}",
            "Give them other names.",
        )
    if not rows.num_rows:
        return _join(rows, step.adds.empty_table()), False
    digests = {name: column_digest.of_values(rows[name]) for name in rows.column_names}
    about = _About(step=step.name, epoch=epoch, shard=shard, rows=rows.num_rows, made_for=digests)
    key = layout.step_record(step.name, epoch, shard, anew)

    def make() -> bytes:
        answer = _answer(step, rows, key)
        if unfit := "; ".join(faults(answer)):
            raise StepError(
                f"recorded step {step.name!r} gave what no sink could hold: {unfit}",
                f"{key}, {rows.num_rows} rows",
                "Nothing was recorded, the next attempt calls it again: let it give another value, or null.",
            )
        answered()
        return _encode(answer, about)

    body, another = run(read_or_make(key, make), store)
    # Read back also by whoever made it: first attempt and repeat go one way.
    return _join(rows, _decode(body, key, step, about)), another


def records_of(
    steps: Iterable[str], layout: Layout, epoch: int, shards: int, *, anew: int | None = None
) -> Iterator[str]:
    """Name what the named steps recorded in an epoch. Nobody reads it once head records the epoch (R9)."""
    return (layout.step_record(name, epoch, shard, anew) for name in steps for shard in range(shards))


def read_or_make(key: str, make: Callable[[], bytes]) -> Step[tuple[bytes, bool]]:
    """Return the content that holds, made now only where there is none, and whether it is another attempt's."""
    held = yield from body_of(key)
    if held is not None:
        return held, True
    ours = make()
    held = yield from create_once(key, ours)
    return held, held != ours


def _answer(step: RecordedStep, rows: pa.Table, key: str) -> pa.Table:
    """Run the step's function, and refuse what a record must not hold."""
    named = f"recorded step {step.name!r}"
    try:
        given = step.function(rows)
    except Exception as error:
        raise StepError(
            f"{named} raised {type(error).__name__}{_place(error)}: {str(error)[:300]}",
            f"{key}, {rows.num_rows} rows",
            "Nothing was recorded, the next attempt calls it again: see to what it depends on. "
            "For a row without an answer let it give a value that says so.",
        ) from error
    wrong = "; ".join(_wrong(step.adds, given, rows.num_rows))
    if wrong:
        expected = ", ".join(f"{field.name} ({field.type})" for field in step.adds)
        raise StepError(
            f"{named} gave something else than it declares: {wrong}",
            key,
            f"Let it return a pyarrow.Table of one row for each row given, with the columns {expected}.",
        )
    return pa.table([given[name] for name in step.adds.names], schema=step.adds)


def _wrong(adds: pa.Schema, given: pa.Table, rows: int) -> Iterator[str]:
    if not isinstance(given, pa.Table):
        yield f"a {type(given).__name__}"
        return
    if given.num_rows != rows:
        yield f"{given.num_rows} rows for {rows}"
    if sorted(given.column_names) != sorted(adds.names):
        yield f"the columns {', '.join(given.column_names) or 'none'}"
        return
    for field in adds:
        column = given[field.name]
        if column.type != field.type:
            yield f"{field.name} is {column.type}, not {field.type}"
        elif column.null_count and not field.nullable:
            yield f"{field.name} is null in {column.null_count} rows"
    try:
        # It would be taken for damage at every repeat.
        given.validate(full=True)
    except pa.ArrowInvalid as error:
        yield f"invalid values: {str(error)[:200]}"


def _place(error: Exception) -> str:
    """Where the user's file was left: the deepest line in the file of the step's function."""
    theirs = traceback.extract_tb(error.__traceback__)[1:]
    if not theirs:
        return ""
    last = [frame for frame in theirs if frame.filename == theirs[0].filename][-1]
    return f" in {last.name} ({Path(last.filename).name}:{last.lineno})"


def _encode(added: pa.Table, about: _About) -> bytes:
    return sealed_stream.seal(added.replace_schema_metadata({_ABOUT: about.model_dump_json()}))


def _decode(body: bytes, key: str, step: RecordedStep, ours: _About) -> pa.Table:
    """Read the added columns of a record, if it is one for these rows."""
    # The checksum comes first: a changed value, or a changed digest of the rows, must not look like anything else.
    try:
        table = sealed_stream.open_sealed(body)
        theirs = _About.model_validate_json((table.schema.metadata or {})[_ABOUT])
    except deltas.DAMAGE as error:
        raise _damage_error(key, str(error)) from error
    if (theirs.step, theirs.epoch, theirs.shard) != (ours.step, ours.epoch, ours.shard):
        raise _damage_error(key, f"it is of step {theirs.step!r}, epoch {theirs.epoch}, shard {theirs.shard}")
    if not table.schema.equals(step.adds):
        found, wanted = (", ".join(f"{f.name} ({f.type})" for f in schema) for schema in (table.schema, step.adds))
        raise VersionError(
            f"recorded step {step.name!r} adds {wanted}, and has recorded {found} for epoch {ours.epoch}",
            key,
            "Let the version that recorded it finish the epoch; then start this one.",
        )
    if theirs != ours:
        raise SinkError(
            f"a repeat of epoch {ours.epoch} brought other rows to recorded step {step.name!r}, shard {ours.shard}: "
            f"{_difference(theirs, ours)}",
            key,
            "What precedes the step is not deterministic (clock, random, look-up): make it a recorded step of its own.",
        )
    return table


def _difference(theirs: _About, ours: _About) -> str:
    if theirs.rows != ours.rows:
        return f"{ours.rows} rows, the record is for {theirs.rows}"
    both = {**theirs.made_for, **ours.made_for}
    names = [name for name in both if theirs.made_for.get(name) != ours.made_for.get(name)]
    return f"{', '.join(names)} differ in content or order"


def _join(rows: pa.Table, added: pa.Table) -> pa.Table:
    for field in added.schema:
        rows = rows.append_column(field, added[field.name])
    return rows


def _damage_error(key: str, how: str) -> ChainError:
    return ChainError(
        f"a record of a step is damaged: {how[:200]}",
        key,
        "Restore it from the bucket's versions. Do not delete it: the step would run again, and may answer otherwise.",
    )
