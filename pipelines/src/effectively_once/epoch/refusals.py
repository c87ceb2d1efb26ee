"""What tables refuse of an epoch for constraints that somebody added: known before the first sink shows a row (R8).

The declaration pins which tables are tried. The first step of a shard writes its rows and the results of its windows to
each of them and rolls back (`sinks/dry_run`); a window's results are in the state before the epoch. What is refused is
recorded once (R4): a table changes, and a repeat has to decide alike. It becomes a dead letter, in no sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.epoch import kept_rows, recorded, too_large
from effectively_once.epoch.as_shown import places
from effectively_once.errors import ChainError
from effectively_once.ledger import checksum
from effectively_once.ledger.objects import body_of, run
from effectively_once.pipeline.columns import COORDINATES, REFUSED_BY_TABLE, RESULT_REFUSED
from effectively_once.state import windows

if TYPE_CHECKING:
    from effectively_once.epoch.shard_step import ShardStep
    from effectively_once.ledger.declaration import Declaration
    from effectively_once.pipeline.pipeline import Pipeline
    from effectively_once.pipeline.windows import Windowed
    from effectively_once.sinks.kafka_shard import Row

STEP = "_tables"
"""In the place of a recorded step's name, none of which begins so."""
Result = tuple[str, int]
"""Key and window of a result."""


@dataclass(frozen=True)
class Refusals:
    """What the tables of an epoch refuse of a shard, and why.

    Attributes:
        rows: source coordinates as one text (`as_shown.places`) -> reason.
        results: windows -> key and start -> reason.

    """

    rows: dict[str, str]
    results: dict[str, dict[Result, str]]

    def encode(self) -> bytes:
        """Return the content of the record."""
        results = {name: [[*which, why] for which, why in found.items()] for name, found in self.results.items()}
        return checksum.seal({"rows": self.rows, "results": results})

    @classmethod
    def of(cls, body: bytes | None, key: str) -> Refusals:
        """Read a record. Raises ChainError: it is missing or damaged."""
        try:
            content, sealed = checksum.open_sealed(body or b"")
            if not sealed:
                raise ValueError("it has no checksum")
            results = {
                name: {(by, start): why for by, start, why in found} for name, found in content["results"].items()
            }
            return cls(content["rows"], results)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ChainError(
                f"a record of what tables refuse is missing or damaged: {str(error)[:200]}",
                key,
                "Restore it from the bucket's versions. Do not delete it: a repeat might decide otherwise.",
            ) from error


def triable(pipeline: Pipeline) -> tuple[str, ...]:
    """Tables whose rows are known before any sink shows one.

    Not those of a `Stateful` query, whose results the first step does not know. Without ids such a query gets every row
    in time again when Spark repeats a batch, those too that a table refused: then none.
    """
    if pipeline.stateful is not None and pipeline.ids != "attached":
        return ()
    names = {to.name for to in pipeline.rows} | {each.name for each in pipeline.windows}
    return tuple(name for name in pipeline.tables if name in names)


def shard_columns(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Name the columns of a table by which its rows are in shards: where these are equal, rows are in one shard."""
    if any(to.name == name for to in pipeline.rows):
        return ("id",) if pipeline.ids == "attached" else tuple(COORDINATES.names)
    keys = {each.name: each.keys for each in pipeline.windows}
    return keys.get(name, (pipeline.stateful.by if pipeline.stateful is not None else "",))


def recorded_steps(pipeline: Pipeline, pinned: Declaration) -> list[str]:
    """Name what has a record of each shard for an epoch, until the next one is declared."""
    steps = [pipeline.recorded.name] if pipeline.recorded else []
    return [*steps, *([STEP] if pinned.tried else []), *([kept_rows.STEP] if pipeline.stateful else [])]


def keeps_values(pipeline: Pipeline, tried: tuple[str, ...]) -> bool:
    """Whether rows without a reason need their value, as they may be dead letters yet."""
    return any(to.name in tried for to in pipeline.rows)


def settle(step: ShardStep, rows: pa.Table) -> Refusals:
    """Return what the tables of the epoch refuse: as recorded, or else tried now and recorded.

    Args:
        step: the first one of a shard.
        rows: those that would be accepted, as sinks see them, with their coordinates.

    Raises:
        PipelineError: as a sink's `publish` does; nothing is visible then.
        ChainError: the record is damaged.

    """
    closing = {
        each.name: results for each in _tried_windows(step) if (results := _closing_results(step, each)[0]).num_rows
    }
    if not rows.num_rows and not closing:
        return Refusals({}, {})

    def make() -> bytes:
        found = Refusals(_find_refused_rows(step, rows), dict(_find_refused_results(step, closing)))
        step.confirm()
        return found.encode()

    key = _key(step)
    body, another = run(recorded.read_or_make(key, make), step.store)
    step.repeated |= another
    step.lap("tables_tried")
    # Read back also by whoever made it: first attempt and repeat go one way.
    return Refusals.of(body, key)


def mark(whole: pa.Table, refused: Refusals, coordinates: Sequence[str] = COORDINATES.names) -> pa.Table:
    """Give the rows that a table refuses their reason, and the copies of each that came with it.

    No copy is taken instead: its id is not known to the catalog, so a mended record of this id is accepted later.
    """
    if not refused.rows:
        return whole
    where = places(whole, coordinates)
    ours = pc.is_in(where, value_set=pa.array(refused.rows, pa.string())).to_numpy(zero_copy_only=False)
    reasons = {int(row): refused.rows[where[row].as_py()] for row in np.flatnonzero(ours)}
    if "id" in whole.column_names:
        ids = whole["id"].take(pa.array(reasons, pa.int64()))
        by_id = dict(zip(ids.to_pylist(), reasons.values(), strict=True))
        copies = pc.and_(pc.is_null(whole["reason"]), pc.is_in(whole["id"], value_set=ids.combine_chunks()))
        for row in np.flatnonzero(copies.to_numpy()):
            reasons.setdefault(int(row), by_id[whole["id"][row].as_py()])
    told = [reasons.get(at, why) for at, why in enumerate(whole["reason"].to_pylist())]
    return whole.set_column(whole.column_names.index("reason"), "reason", pa.array(told, pa.string()))


def without(rows: pa.Table, refused: Refusals, coordinates: Sequence[str] = COORDINATES.names) -> pa.Table:
    """Return the rows that no table refuses."""
    if not refused.rows:
        return rows
    return rows.filter(pc.invert(pc.is_in(places(rows, coordinates), value_set=pa.array(refused.rows, pa.string()))))


def letters(step: ShardStep, refused: Refusals) -> Iterator[Row]:
    """Dead letters of the results that a table refuses, as `too_large` tells of others, and numbered after them."""
    for each in _tried_windows(step):
        if why := refused.results.get(each.name):
            results, wide = _closing_results(step, each)
            told = [row for row in results.to_pylist() if (row[windows.KEY], row[windows.START]) in why]
            for number, row in enumerate(told, wide):
                yield too_large.letter(step, each, number, why[row[windows.KEY], row[windows.START]], row)


def results_without(step: ShardStep, each: Windowed, results: pa.Table) -> pa.Table:
    """Return the results, columns of a delta, that the windows' table takes, as the first step has recorded it.

    Raises:
        ChainError: the record is missing or damaged.

    """
    if each.name not in step.task.declaration.tried or not results.num_rows:
        return results
    key = _key(step)
    why = Refusals.of(run(body_of(key), step.store), key).results.get(each.name, {})
    which = zip(results[windows.KEY].to_pylist(), results[windows.START].to_pylist(), strict=True)
    return results.filter(pa.array([one not in why for one in which], pa.bool_())) if why else results


def _key(step: ShardStep) -> str:
    pinned = step.task.declaration
    return step.task.layout.step_record(STEP, pinned.epoch, step.shard, pinned.decides)


def _tried_windows(step: ShardStep) -> list[Windowed]:
    return [each for each in step.task.pipeline.windows if each.name in step.task.declaration.tried]


def _closing_results(step: ShardStep, each: Windowed) -> tuple[pa.Table, int]:
    """Results that this epoch would publish, columns of a delta, and how many are too large for every sink."""
    pinned, pipeline = step.task.declaration, step.task.pipeline
    watermarks = pinned.previous_watermark_ms, pinned.watermark_ms
    if watermarks[0] == watermarks[1]:
        return windows.schema(pipeline.accumulators(each)).empty_table(), 0
    final = step.state.window_state(each).final(*watermarks)
    results, impossible = windows.final_of(final, pipeline.accumulators(each))
    return results, len(impossible)


def _find_refused_rows(step: ShardStep, rows: pa.Table) -> dict[str, str]:
    pipeline, tried = step.task.pipeline, step.task.declaration.tried
    names = [to.name for to in pipeline.rows if to.name in tried]
    found = _untaken(step, {name: rows.select(pipeline.schema_of(name).names) for name in names}, REFUSED_BY_TABLE)
    if not found:
        return {}
    where = places(rows, pipeline.coordinates.names)
    return {where[row].as_py(): why for row, why in found.items()}


def _find_refused_results(step: ShardStep, closing: dict[str, pa.Table]) -> Iterator[tuple[str, dict[Result, str]]]:
    for each in _tried_windows(step):
        results = closing.get(each.name)
        if results is None:
            continue
        pipeline = step.task.pipeline
        given = each.rows(results, pipeline.row_schema).select(pipeline.schema_of(each.name).names)
        found = _untaken(step, {each.name: given}, RESULT_REFUSED)
        keys, starts = results[windows.KEY], results[windows.START]
        yield each.name, {(keys[row].as_py(), starts[row].as_py()): why for row, why in found.items()}


def _untaken(step: ShardStep, tables: dict[str, pa.Table], reason: str) -> dict[int, str]:
    """Say which rows no table is to get, by number: of what is left every table takes all, as it is published.

    Args:
        step: the first one of a shard.
        tables: what each of them would get, with as many rows.
        reason: how the reasons begin.

    """
    found: dict[int, str] = {}
    left = list(range(len(next(iter(tables.values()), ()))))
    while left:
        now: dict[int, str] = {}
        for name, rows in tables.items():
            part = rows.filter(pa.array([row not in found for row in range(len(rows))], pa.bool_())) if found else rows
            for at, what in step.try_rows(name, part).items():
                now.setdefault(left[at], f"{reason} {name}: {what}")
        if not now:
            break
        found |= now
        # Once more without them.
        left = [row for row in left if row not in now]
    return found
