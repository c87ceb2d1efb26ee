"""Oracle 1: every sink holds exactly the records it must hold, as a multiset."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.harness.checkers.case import FIRST, Case, clip, coordinate_text, place_of
from tests.harness.checkers.expectations import DeadLetterRows, Expectation, coordinate_of, count_name, expectation
from tests.harness.evidence import EvidenceError, RowCountError
from tests.harness.results import Oracle, Output, Verdict

NAME, NUMBER = "multiset", 1
_SORTS = ("missing", "duplicated", "phantom", "corrupted")


@dataclass
class Comparison:
    """One sink compared with what it must hold; `evidence` holds the first offenders of each sort."""

    sink: str
    output: Output
    evidence: tuple[str, ...]
    count_error: RowCountError | None = None


@dataclass
class _Tally:
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SORTS, 0))
    first: dict[str, list[str]] = field(default_factory=lambda: {sort: [] for sort in _SORTS})

    def wants(self, sort: str) -> bool:
        """Count an offender; whether it is among the first, to be described."""
        self.counts[sort] += 1
        return self.counts[sort] <= FIRST


def compare(sink: str, expected: Expectation, rows: Iterator[dict[str, Any]]) -> Comparison:
    """Compare the rows of a sink with what it must hold, in one pass.

    Raises:
        EvidenceError: the rows cannot be read to their end line. A wrong number in the end line is not raised but
            kept in the result, because a record that was removed must still be named.

    """
    tally, observed, error = _Tally(), 0, None
    seen: set[Hashable] = set()
    try:
        for row in rows:
            observed += 1
            key = expected.key_of(row)
            if key is None or key not in expected.due:
                if tally.wants("phantom"):
                    tally.first["phantom"].append(f"{_naming(row, key)} at {place_of(sink, row)}")
                continue
            if key in seen and tally.wants("duplicated"):
                tally.first["duplicated"].append(f"{expected.describe(key)}, again at {place_of(sink, row)}")
            seen.add(key)
            fault = f"its sink is {row.get('sink')!r}" if row.get("sink") != sink else expected.fault_in(key, row)
            if fault is not None and tally.wants("corrupted"):
                tally.first["corrupted"].append(f"{expected.describe(key)} at {place_of(sink, row)}: {fault}")
    except RowCountError as count_error:
        error = count_error
    if len(seen) < len(expected.due):
        for key in expected.due:
            if key not in seen and tally.wants("missing"):
                tally.first["missing"].append(expected.describe(key))
    evidence: list[str] = []
    for sort in _SORTS:
        evidence += clip([f"{sink}: {sort} {line}" for line in tally.first[sort]], tally.counts[sort])
    output = Output.model_validate({"expected": len(expected.due), "observed": observed, **tally.counts})
    return Comparison(sink, output, tuple(evidence), error)


def _naming(row: Mapping[str, Any], key: Hashable) -> str:
    if "id" in row:
        source = coordinate_of(row)
        return f"id {row.get('id')} from {row.get('source') if source is None else coordinate_text(source)}"
    return count_name(key) if key is not None else f"row without identity {dict(row)!r:.120}"


def judge_sinks(
    case: Case,
    sinks: Iterable[str] | None = None,
    expected_of: Callable[[Case, str], Expectation] = expectation,
    beside: str = "",
) -> tuple[Oracle, dict[str, Output]]:
    """Oracle 1 over every sink of the run, with the numbers of each sink that could be read.

    A sink that cannot be read does not hide the offences of another: fail is worse than unknown.

    Args:
        case: the run.
        sinks: left out, those of the manifest.
        expected_of: what a sink must hold.
        beside: is said too where all is well.

    Raises:
        RowCountError: in a control, when a file's end line says another number of rows.

    """
    comparisons: list[Comparison] = []
    unreadable: list[str] = []
    for sink in case.sinks if sinks is None else sinks:
        try:
            expected = expected_of(case, sink)
            comparison = compare(sink, expected, case.rows(sink))
        except EvidenceError as error:
            unreadable.append(f"{sink}: {error}")
            continue
        if comparison.count_error is not None and case.manifest.control is not None:
            # Failing is what a control wants to show, so doubtful evidence must not help it to.
            raise comparison.count_error
        if isinstance(expected, DeadLetterRows):
            comparison.output = comparison.output.model_copy(update={"causes": expected.causes()})
        comparisons.append(comparison)
        if comparison.count_error is not None:
            unreadable.append(f"{sink}: {comparison.count_error}")
    outputs = {comparison.sink: comparison.output for comparison in comparisons}
    evidence = (*(line for comparison in comparisons for line in comparison.evidence), *unreadable)
    offending = [comparison for comparison in comparisons if not comparison.output.exact]
    if offending:
        verdict = Verdict.FAIL
        says = "; ".join(f"{one.sink}: {_sentence(one.output)}" for one in offending)
    elif unreadable or not outputs:
        verdict = Verdict.UNKNOWN
        says = f"evidence of {len(unreadable)} sinks cannot be believed: {(unreadable or ['no sink can be judged'])[0]}"
    else:
        verdict = Verdict.PASS
        total = sum(output.observed for output in outputs.values())
        says = f"{total} records in {len(outputs)} sinks: none missing, duplicated, phantom or corrupted{beside}"
    return Oracle(name=NAME, number=NUMBER, verdict=verdict, says=says, evidence=evidence), outputs


def only(sort: str, oracle: Oracle, found: Mapping[str, Output]) -> Oracle:
    """Let a control fail by what it is built to show, and by nothing beside it: that is unknown."""
    wrong = {one for output in found.values() for one in _SORTS if getattr(output, one)}
    if oracle.verdict is not Verdict.FAIL or wrong == {sort}:
        return oracle
    says = f"this control is built to show records {sort}, and nothing else: {oracle.says}"
    return oracle.model_copy(update={"verdict": Verdict.UNKNOWN, "says": says})


def _sentence(output: Output) -> str:
    found = ", ".join(f"{getattr(output, sort)} {sort}" for sort in _SORTS if getattr(output, sort))
    return f"{found} ({output.observed} observed, {output.expected} expected)"
