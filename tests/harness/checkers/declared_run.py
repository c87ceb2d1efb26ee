"""A run of a declared pipeline: its evidence, what each sink must hold, and what its chain must say."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import orjson

from tests.harness.checkers import chain, loss, multiset, vacuity
from tests.harness.checkers.case import UNSEEN, Case, coordinate_text
from tests.harness.checkers.declared import (
    Declaration,
    Due,
    Given,
    Replayed,
    Sink,
    identity,
    is_left_out,
    replay,
)
from tests.harness.checkers.whole_row import unfold
from tests.harness.evidence import EvidenceError
from tests.harness.results import OWN_PIPELINE, Oracle, Output
from tests.harness.run_directory import read_lines
from tests.harness.schemas import SinkSchema

_T = TypeVar("_T")
GIVEN, DECLARATION = "given", "declaration.json"
_COUNTS = ("in_", "accepted", "duplicate", "late", "malformed")


class DeclaredCase(Case):
    """Evidence of a run of a declared pipeline."""

    @cached_property
    def declaration(self) -> Declaration:
        """What the pipeline declares."""
        return _read(self.run.observed / DECLARATION, lambda content: Declaration.of(orjson.loads(content)))

    @cached_property
    def transform_output(self) -> list[Given]:
        """What its transform made of every record of the topic."""
        path = self.run.observed_path(GIVEN)
        try:
            return [Given.of(line) for line in read_lines(path)]
        except (KeyError, TypeError, ValueError) as error:
            raise EvidenceError(f"what the transform gave is damaged ({error!r})", path, "run again") from error

    @cached_property
    def replayed(self) -> Replayed:
        """What every sink must hold."""
        return replay(self.declaration, self.transform_output, self.chain.pinned, self.shown)

    @property
    def schemas(self) -> Mapping[str, SinkSchema]:
        """What every row of each sink must be, as its declaration says."""
        found = self.manifest.schemas
        if not found:
            raise EvidenceError(UNSEEN, self.run.manifest_path, "run again")
        declared = {sink.name: sink.kind for sink in self.declaration.sinks}
        if {name: one.kind for name, one in found.items()} != declared:
            what = "schemas are not of the declared sinks"
            raise EvidenceError(what, self.run.manifest_path, "judge an unaltered run")
        return found

    @cached_property
    def _rows_by_source(self) -> dict[Any, Mapping[str, Any]]:
        return {one.known_by: one.row for one in self.transform_output}

    def hidden(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Columns that the transform gave to the record that a row is of, and the row may not show."""
        source = row.get("source")
        if not isinstance(source, list) or len(source) != 3:
            return {}
        place = () if self.declaration.rows_max is None else (row.get("pos"),)
        return self._rows_by_source.get((*source, *place)) or {}

    @property
    def sinks(self) -> tuple[str, ...]:
        """Sinks that the concurrent reader read."""
        return (*self.declaration.topics, *self.declaration.manifests)

    @cached_property
    def given_up(self) -> list[tuple[loss.Partition, loss.Span]]:
        """Ranges that the chain gave up."""
        return [*loss.spans(self.chain.epochs)]

    @property
    def lost(self) -> int:
        """Acknowledged records in them."""
        return sum(loss.holds(self.given_up, one.coordinate) for one in self.sends)

    @property
    def backlog(self) -> None:  # type: ignore[override]
        """None: the records of a file wait for one another."""


class DueRows:
    """What one sink must hold."""

    def __init__(self, declaration: Declaration, sink: Sink, due: Mapping[Any, Due]) -> None:
        self.due = dict(due)
        self._declaration, self._sink = declaration, sink

    def key_of(self, row: Mapping[str, Any]) -> Hashable:
        own = self._own(row)
        found: Hashable = identity(self._declaration, self._sink, own)
        if found is None and self._sink.of == "dead_letter" and is_left_out(self._declaration, own):
            # Nobody recomputes these windows: their dead letters are taken at their word, each once.
            found = (str(own.get("source")),)
            self.due.setdefault(found, Due({}, int(own.get("epoch", -1))))
        return found

    def fault_in(self, key: Any, row: Mapping[str, Any]) -> str | None:
        due = self.due[key]
        row = self._own(row)
        for name, value in due.row.items():
            shown = row.get(name)
            if isinstance(value, list) and isinstance(shown, str):
                shown = json_of(shown)
            if type(shown) is not type(value) or shown != value:
                return f"{name} is {shown!r:.80}, due is {value!r:.80}"
        if self._sink.kind not in ("table", "lake") and row.get("epoch") != due.epoch:
            return f"published in epoch {row.get('epoch')}, due was {due.epoch}"
        return None

    def _own(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return unfold(row) if self._sink.kind == "kafka" else row

    def describe(self, key: Any) -> str:
        if len(key) > 2 and isinstance(key[1], int):
            named = coordinate_text(key[:3]) + "".join(f" row {pos}" for pos in key[3:])
        else:
            named = f"key {key[-2:][0]!r} window {key[-1]}"
        return f"{named}, epoch {self.due[key].epoch}"


def multiset_of(case: DeclaredCase) -> tuple[Oracle, dict[str, Output]]:
    """Oracle 1 over every sink that can be judged."""
    declaration, due = case.declaration, case.replayed.due
    expected = {sink.name: DueRows(declaration, sink, due[sink.name]) for sink in declaration.sinks}
    left = f"; not judged: {', '.join(declaration.left_out)}" if declaration.left_out else ""
    return multiset.judge_sinks(case, expected, lambda _, sink: expected[sink], left)


def chain_of(case: DeclaredCase) -> Oracle:
    """Oracle 5: no gap, no overlap, one driver after the other, and each epoch's numbers are the reference's."""
    epochs = case.chain.epochs
    found = chain.breaks(case)
    # One that is declared alone has no numbers; `order` tells of it.
    for record, due in zip(epochs, case.replayed.numbers[: len(epochs)], strict=True):
        names = [(f"counts.{name}", getattr(record.counts, name), getattr(due, name)) for name in _COUNTS]
        names += [("filtered", record.filtered, due.filtered)]
        if case.declaration.rows_max is not None:
            names += [("records", record.records or 0, due.records)]
        if case.declaration.timed:
            names += [
                (name, getattr(record, name), getattr(due, name)) for name in ("watermark_ms", "max_event_time_ms")
            ]
        found += [
            f"epoch {record.epoch}: {name} is {said}, the reference says {meant}"
            for name, said, meant in names
            if said != meant
        ]
    held = sum(not loss.holds(case.given_up, one.source) for one in case.transform_output if not one.pos)
    return chain.finding(case, found, held, "; each one's numbers add up, and equal the reference's")


def coverage(case: DeclaredCase) -> Oracle:
    """Demand that the topic holds every acknowledged record, and that one epoch each has read it."""
    there, given_up = {one.source for one in case.transform_output}, case.given_up
    complaints = [
        f"no record at {coordinate_text(one.coordinate)}, which was acknowledged"
        for one in case.sends
        if one.coordinate not in there and not loss.holds(given_up, one.coordinate)
    ]
    complaints += broken_records(case.declaration, case.transform_output)
    complaints += [f"no epoch read {coordinate_text(place)}" for place in case.replayed.unread]
    complaints += [f"two epochs read {coordinate_text(place)}" for place in case.replayed.reread]
    still = f"; {case.replayed.open_windows} windows are still open" * bool(case.replayed.open_windows)
    gave_up = loss.sentence(case.chain.epochs, case.lost)
    covered = f"no exact coverage: {gave_up}; the chain's ranges hold" if gave_up else "the chain's ranges hold"
    held = len([place for place in there if not loss.holds(given_up, place)])
    return vacuity.guard("coverage", f"{covered} all {held} records, each once{still}", complaints)


def broken_records(declaration: Declaration, rows: Iterable[Given]) -> list[str]:
    """Describe records whose rows are not numbered from 0, are too many, or have ids that are not of one record."""
    if declaration.rows_max is None:
        return []
    by_source: dict[Any, list[Given]] = {}
    for one in rows:
        by_source.setdefault(one.source, []).append(one)
    found: list[str] = []
    for source, some in by_source.items():
        places = sorted(-1 if one.pos is None else one.pos for one in some)
        if places != list(range(len(some))) or len(some) > declaration.rows_max:
            found.append(f"the rows of {coordinate_text(source)} are {places}, of at most {declaration.rows_max}")
        ids = {
            (one.row["id"].rpartition("#")[0], one.row["id"].rpartition("#")[2] == str(one.pos))
            for one in some
            if one.row.get("id")
        }
        if len(ids) > 1 or any(not numbered for _, numbered in ids):
            found.append(f"the ids of the rows of {coordinate_text(source)} are not made of one record's")
    return found


def is_declared(case: Case) -> bool:
    """Whether a run is of a declared pipeline: by what it holds, or by its own word."""
    if (case.run.observed / DECLARATION).is_file():
        return True
    try:
        return case.manifest.settings.campaign == OWN_PIPELINE
    except EvidenceError:
        return False


def json_of(text: str) -> Any:
    """Return what a text is as JSON, which values that were collected are; itself where it is none."""
    try:
        return orjson.loads(text)
    except ValueError:
        return text


def _read(path: Path, of: Callable[[bytes], _T]) -> _T:
    try:
        return of(path.read_bytes())
    except OSError as error:
        raise EvidenceError(f"evidence cannot be read ({error.strerror})", path, "run again") from error
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"the file is damaged ({error!r})", path, "run again") from error
