"""One pipeline in memory, epoch after epoch: what each sink shows, held against the model and against each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from effectively_once import Pipeline, Trial, Windowed
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.sinks import ToFiles, ToKafka
from effectively_once.state.accumulator import BAD_RESULT, IMPOSSIBLE, SUM_TOO_LARGE, TOO_MANY_DISTINCT
from effectively_once.testing import KafkaRecord
from tests.fuzz.declarations import ROW_SINKS
from tests.fuzz.model import Expected, Group, Model
from tests.fuzz.records import CLOSER, Record
from tests.fuzz.results import plain as in_messages
from tests.fuzz.results import result
from tests.fuzz.rows import Row
from tests.fuzz.shown import of_letters, of_messages, of_table, plain

Results = dict[str, tuple[Any, str]]
"""Of a group, as `results.result` gives each."""
_REASONS = {"sum": SUM_TOO_LARGE, "distinct": TOO_MANY_DISTINCT, "own": BAD_RESULT}


class TrialRun:
    """A trial and its model.

    Args:
        trial: of the pipeline.
        pipeline: the declaration.
        shards: of the trial.

    Attributes:
        outcomes: how often each came, reasons among them.

    """

    def __init__(self, trial: Trial, pipeline: Pipeline, shards: int) -> None:
        self._trial, self._pipeline, self._shards = trial, pipeline, shards
        self._model = Model(pipeline)
        self.outcomes: Counter[str] = Counter()

    def all(self, epochs: Sequence[Sequence[Record]]) -> None:
        """Run epochs, close all windows, and hold everything against the model."""
        for records in (*epochs, [CLOSER], []):
            expected = self._model.epoch(records)
            outputs = self._trial.epoch(
                [KafkaRecord(record.value, record.key, record.timestamp_ms) for record in records]
            )
            self._counted(records, expected)
            self._letters(expected)
            self._rows(expected)
            self._windows(expected)
        assert self._trial.repeat() == outputs

    def _counted(self, records: Sequence[Record], expected: Expected) -> None:
        """Every record is one of four."""
        counts, late = self._trial.last.counts, sum(reason == "late" for reason in expected.refused.values())
        assert (counts.read, counts.accepted, counts.duplicate, counts.late, counts.malformed) == (
            len(records),
            len(expected.accepted),
            len(expected.copies),
            late,
            len(expected.refused) - late,
        )
        assert counts.read == counts.accepted + counts.duplicate + counts.late + counts.malformed
        assert self._trial.watermark_ms == self._model.watermark_ms
        self.outcomes += Counter(read=counts.read, accepted=counts.accepted, duplicate=counts.duplicate)
        self.outcomes += Counter(expected.refused.values())

    def _letters(self, expected: Expected) -> None:
        """Every refusal has its reason, and sums that are no results are told exactly."""
        letters = [
            letter for shard in range(self._shards) for letter in of_letters(self._published(DEAD_LETTER, shard) or [])
        ]
        records = [letter for letter in letters if letter["reason"] not in IMPOSSIBLE]
        told_reasons = Counter((letter["source"][2], _alike(letter["reason"])) for letter in records)
        assert told_reasons == Counter((offset, _alike(reason)) for offset, reason in expected.refused.items())
        told = [(letter["reason"], letter["value"]) for letter in letters if letter["reason"] in IMPOSSIBLE]
        due = []
        for each in self._pipeline.windows:
            kinds = [self._pipeline.row_schema.field(name).type for name in each.keys]
            for (key, start), values in self._results(expected, each.name).items():
                if reasons := [_REASONS[each.values[name].how] for name, (shown, _) in values.items() if shown is None]:
                    shown = dict(zip(each.keys, map(in_messages, key, kinds), strict=True))
                    line = {**shown, "window_start_ms": start, **{name: text for name, (_, text) in values.items()}}
                    due.append((reasons[0], json.dumps(line, ensure_ascii=False, separators=(",", ":"))))
        assert sorted((reason, repr(json.loads(text))) for reason, text in told) == sorted(
            (reason, repr(json.loads(text))) for reason, text in due
        )
        self.outcomes.update(reason for reason, _ in due)

    def _rows(self, expected: Expected) -> None:
        """Topic, table and files have every accepted row, and nothing else."""
        due = sorted(map(_hashable, expected.accepted), key=repr)
        for name in ROW_SINKS:
            assert sorted(map(_hashable, self.shown(name)), key=repr) == due, name
        to, _ = self._pipeline.sinks["raw"]
        assert isinstance(to, ToKafka)
        values = Counter((row[to.key] if to.key else None, row[str(to.value)]) for row in expected.accepted)
        assert Counter(
            message for shard in range(self._shards) for message in self._published("raw", shard) or []
        ) == Counter({(_encoded(key), _encoded(value) or b""): 0 for key, value in values}) + Counter(
            message for key, value in values.elements() for message in [(_encoded(key), _encoded(value) or b"")]
        )

    def _windows(self, expected: Expected) -> None:
        """Topic, table and files have the results of the windows that closed; totals are those of all keys."""
        for each in self._pipeline.windows:
            results = self._results(expected, each.name)
            due = [
                {**dict(zip(each.keys, key, strict=True)), "window_start_ms": start, **_shown(values)}
                for (key, start), values in results.items()
                if None not in _shown(values).values()
            ]
            assert sorted(map(_hashable, self.shown(each.name)), key=repr) == sorted(map(_hashable, due), key=repr)
            self.outcomes["results"] += len(due)
            if each.totals is not None:
                by_start: dict[int, list[Row]] = {}
                for (_, start), rows in expected.closed[each.name].items():
                    by_start.setdefault(start, []).extend(rows)
                totals = [
                    {"window_start_ms": start, **_shown(self._values_of(each, rows))}
                    for start, rows in by_start.items()
                ]
                found = self.shown(each.totals.name)
                assert sorted(map(_hashable, found), key=repr) == sorted(map(_hashable, totals), key=repr)

    def _results(self, expected: Expected, name: str) -> dict[Group, Results]:
        each = next(each for each in self._pipeline.windows if each.name == name)
        return {group: self._values_of(each, rows) for group, rows in expected.closed[name].items()}

    def _values_of(self, each: Windowed, rows: Sequence[Row]) -> Results:
        return {name: result(value, rows, self._pipeline.row_schema) for name, value in each.values.items()}

    def _published(self, name: str, shard: int) -> Any:
        _, content = self._trial._memory.get((name, shard, self._trial.last.epoch), (None, None))
        return content

    def shown(self, name: str) -> list[Row]:
        """Rows of a sink as its readers see them."""
        to, _ = self._pipeline.sinks[name]
        number = self._trial.last.epoch
        if isinstance(to, ToFiles):
            rows = self._trial._files(name).rows(number, number)
            return [{column: plain(value) for column, value in row.items()} for _, _, row in rows]
        found: list[Row] = []
        for shard in range(self._shards):
            content = self._published(name, shard)
            if isinstance(content, pa.Table):
                found += of_table(self._pipeline.tables[name], content)
            elif isinstance(to, ToKafka):
                rows_ = of_messages(to, self._pipeline.schema_of(name), content or [])
                found += [{column: row[column] for column in self._pipeline.schema_of(name).names} for row in rows_]
        return found


def _alike(reason: str) -> str:
    """A record that is no JSON, and has a key twice as far as it can be read, may be called either."""
    return "malformed" if reason == "duplicate_key" else reason


def _shown(values: Results) -> Row:
    return {name: shown for name, (shown, _) in values.items()}


def _encoded(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _hashable(row: Row) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(row.items()))
