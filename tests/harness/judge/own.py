"""Judges a run of a declared pipeline from the files of its directory: no user_counts, no seeded stream."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import orjson

from tests.harness.checkers import (
    adding_up,
    bound,
    chain,
    claim,
    endings,
    faults,
    loss,
    messages,
    monotone,
    multiset,
    quiet,
    refused,
    repairs,
    telling,
    vacuity,
)
from tests.harness.checkers.case import UNSEEN, Case, coordinate_text
from tests.harness.checkers.declared import Coordinate, Declaration, Due, Given, Replayed, Sink, identity, replay
from tests.harness.checkers.whole_row import unfolded
from tests.harness.evidence import EvidenceError
from tests.harness.judge.verdict import protected, read_or, summary, write_results
from tests.harness.results import Oracle, Output, Results, worst
from tests.harness.run_directory import RunDirectory, read_lines
from tests.harness.schemas import SinkSchema

_T = TypeVar("_T")
GIVEN, DECLARATION = "given", "declaration.json"
_COUNTS = ("in_", "accepted", "duplicate", "late", "malformed")


class OwnCase(Case):
    """Evidence of a run of a declared pipeline."""

    @cached_property
    def declaration(self) -> Declaration:
        """What the pipeline declares."""
        return _read(self.run.observed / DECLARATION, lambda content: Declaration.of(orjson.loads(content)))

    @cached_property
    def given(self) -> list[Given]:
        """What its transform made of every record of the topic."""
        path = self.run.observed_path(GIVEN)
        try:
            return [Given.of(line) for line in read_lines(path)]
        except (KeyError, TypeError, ValueError) as error:
            raise EvidenceError(f"what the transform gave is damaged ({error!r})", path, "run again") from error

    @cached_property
    def replayed(self) -> Replayed:
        """What every sink must hold."""
        return replay(self.declaration, self.given, self.chain.pinned, self.shown)

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
    def _rows_given(self) -> dict[Coordinate, Mapping[str, Any]]:
        return {one.source: one.row for one in self.given}

    def hidden(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Columns that the transform gave to the record that a row is of, and the row may not show."""
        source = row.get("source")
        found = self._rows_given.get(tuple(source)) if isinstance(source, list) and len(source) == 3 else None
        return found or {}

    @property
    def sinks(self) -> tuple[str, ...]:
        """Sinks that the concurrent reader read."""
        return (*self.declaration.topics, *self.declaration.manifests)


class DueRows:
    """What one sink must hold."""

    def __init__(self, declaration: Declaration, sink: Sink, due: Mapping[Any, Due]) -> None:
        self.due = due
        self._declaration, self._sink = declaration, sink

    def key_of(self, row: Mapping[str, Any]) -> Hashable:
        found: Hashable = identity(self._declaration, self._sink, self._own(row))
        return found

    def fault_in(self, key: Any, row: Mapping[str, Any]) -> str | None:
        due = self.due[key]
        row = self._own(row)
        for name, value in due.row.items():
            if type(row.get(name)) is not type(value) or row[name] != value:
                return f"{name} is {row.get(name)!r:.80}, due is {value!r:.80}"
        if self._sink.kind != "table" and row.get("epoch") != due.epoch:
            return f"published in epoch {row.get('epoch')}, due was {due.epoch}"
        return None

    def _own(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return unfolded(row) if self._sink.kind == "kafka" else row

    def describe(self, key: Any) -> str:
        named = coordinate_text(key) if len(key) == 3 else f"key {key[0]!r} window {key[1]}"
        return f"{named}, epoch {self.due[key].epoch}"


def is_own(run: Path) -> bool:
    """Whether a run directory is that of a declared pipeline."""
    return (RunDirectory(run).observed / DECLARATION).is_file()


def judge(run: Path, *, broke_off: str | None = None, write: bool = True) -> Results:
    """Judge a run; never raises for bad evidence: an oracle that cannot read its own is unknown, with the reason.

    Args:
        run: the run directory.
        broke_off: why the run ended early, None where it did not.
        write: whether `results.json` and `junit.xml` are written.

    Raises:
        OSError: a result cannot be written.
        EvidenceError: there is no manifest.
    """
    case = OwnCase(RunDirectory(run))
    manifest = case.manifest
    outputs: dict[str, Output] = {}
    checked: list[faults.Checked] = []

    def sinks(case: OwnCase) -> Oracle:
        oracle, found = multiset_of(case)
        outputs.update(found)
        return oracle

    def hits(case: OwnCase) -> Oracle:
        checked.extend(faults.check(case.events))
        return vacuity.faults(case, checked)

    oracles = [
        protected(multiset.NAME, multiset.NUMBER, sinks, case),
        protected(monotone.NAME, monotone.NUMBER, monotone.judge, case),
        protected(quiet.NAME, quiet.NUMBER, quiet.judge, case),
        protected(chain.NAME, chain.NUMBER, chain_of, case),
        protected(messages.NAME, messages.NUMBER, messages.judge, case),
        *refused.judge(case),
        protected("workload", 0, vacuity.workload, case),
        protected("acknowledged", 0, vacuity.unacknowledged, case),
        protected("coverage", 0, coverage, case),
        protected("epochs", 0, vacuity.epochs, case),
        protected("history", 0, lambda case: history(case, broke_off), case),
        protected("faults", 0, hits, case),
        protected(endings.NAME, 0, lambda case: endings.judge(case, checked), case),
        protected(bound.NAME, 0, bound.judge, case),
        protected(claim.NAME, 0, lambda case: claim.minimum(case, checked, ()), case),
    ]
    gave_up = read_or(lambda: loss.sentence(case.chain.epochs, _lost(case)), "")
    results = summary(
        case,
        worst(one.verdict for one in oracles),
        manifest.claim + claim.but(gave_up),
        oracles=oracles,
        outputs=outputs,
        found=[one.fault for one in checked],
    )
    if write:
        write_results(case.run, results)
    return results


def multiset_of(case: OwnCase) -> tuple[Oracle, dict[str, Output]]:
    """Oracle 1 over every sink that can be judged."""
    declaration, due = case.declaration, case.replayed.due
    expected = {sink.name: DueRows(declaration, sink, due[sink.name]) for sink in declaration.sinks}
    left = f"; not judged: {', '.join(declaration.left_out)}" if declaration.left_out else ""
    return multiset.judge_sinks(case, expected, lambda _, sink: expected[sink], left)


def chain_of(case: OwnCase) -> Oracle:
    """Oracle 5: no gap, no overlap, one driver after the other, and each epoch's numbers are the reference's."""
    epochs, events = case.chain.epochs, case.events
    if not epochs:
        raise EvidenceError("the chain holds no epoch", case.run.chain_path, "run long enough for one epoch")
    found = chain.order(case.chain) + chain.ranges(epochs, case.sends) + chain.constants(epochs)
    found += telling.overtaken(events) + telling.contradicted(case.chain, events)
    found += repairs.complaints(case.chain.pinned, case.shown)
    given_up = [*loss.spans(epochs)]
    held = sum(not loss.holds(given_up, one.source) for one in case.given)
    found += adding_up.complaints(adding_up.recorded(epochs), held)
    # One that is declared alone has no numbers; `order` tells of it.
    for record, due in zip(epochs, case.replayed.numbers[: len(epochs)], strict=True):
        names = [(f"counts.{name}", getattr(record.counts, name), getattr(due, name)) for name in _COUNTS]
        if case.declaration.timed:
            names += [
                (name, getattr(record, name), getattr(due, name)) for name in ("watermark_ms", "max_event_time_ms")
            ]
        found += [
            f"epoch {record.epoch}: {name} is {said}, the reference says {meant}"
            for name, said, meant in names
            if said != meant
        ]
    says = "; each one's numbers add up, and equal the reference's"
    return chain.finding(case, found, _lost(case), says)


def coverage(case: OwnCase) -> Oracle:
    """Demand that the topic holds every acknowledged record, and that one epoch each has read it."""
    there = {one.source for one in case.given}
    given_up = [*loss.spans(case.chain.epochs)]
    complaints = [
        f"no record at {coordinate_text(one.coordinate)}, which was acknowledged"
        for one in case.sends
        if one.coordinate not in there and not loss.holds(given_up, one.coordinate)
    ]
    complaints += [f"no epoch read {coordinate_text(place)}" for place in case.replayed.unread]
    complaints += [f"two epochs read {coordinate_text(place)}" for place in case.replayed.reread]
    still = f"; {case.replayed.open_windows} windows are still open" * bool(case.replayed.open_windows)
    gave_up = loss.sentence(case.chain.epochs, _lost(case))
    covered = f"no exact coverage: {gave_up}; the chain's ranges hold" if gave_up else "the chain's ranges hold"
    held = len([place for place in there if not loss.holds(given_up, place)])
    return vacuity.guard("coverage", f"{covered} all {held} records, each once{still}", complaints)


def _lost(case: OwnCase) -> int:
    """Acknowledged records that the chain gave up."""
    given_up = [*loss.spans(case.chain.epochs)]
    return sum(loss.holds(given_up, one.coordinate) for one in case.sends)


def history(case: OwnCase, broke_off: str | None) -> Oracle:
    """Demand that the run came to its end; of one that did not, tell the last words of its drivers."""
    complaints = [f"the run broke off: {broke_off}"] if broke_off else []
    complaints += telling.cut(case.events)
    if complaints:
        ended = (one for one in case.events if one["event"] == "driver" and one.get("state") == "ended")
        complaints += [f"a driver ended: {one.get('says')}" for one in ended]
    return vacuity.guard("history", f"{len(case.events)} events, to the end of the run", complaints)


def _read(path: Path, of: Callable[[bytes], _T]) -> _T:
    try:
        return of(path.read_bytes())
    except OSError as error:
        raise EvidenceError(f"evidence cannot be read ({error.strerror})", path, "run again") from error
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"the file is damaged ({error!r})", path, "run again") from error
