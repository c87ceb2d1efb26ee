"""The judge: recomputes the verdict of a run from the files of its directory alone."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.markup import escape

from tests.harness.checkers import (
    agreement,
    binding,
    bound,
    chain,
    changes,
    claim,
    endings,
    faults,
    loss,
    messages,
    monotone,
    multiset,
    own_history,
    quiet,
    recovery,
    refused,
    vacuity,
)
from tests.harness.checkers.backlog import Backlog
from tests.harness.checkers.case import Case
from tests.harness.checkers.declared_run import DeclaredCase, is_declared
from tests.harness.evidence import EvidenceError, Manifest, PlannedControl
from tests.harness.judge import junit
from tests.harness.judge.expectations import DECLARED, USER_COUNTS, Expectations
from tests.harness.results import (
    Answer,
    Change,
    Control,
    Epochs,
    Fault,
    Oracle,
    Output,
    Results,
    Verdict,
    Workload,
    worst,
)
from tests.harness.run_directory import RunDirectory, write_atomically

_T = TypeVar("_T")
_C = TypeVar("_C", bound=Case)

Second = Callable[[Path], Answer]
"""Asks the second judge of a run directory."""


def judge(run: Path, write: bool = True, second: Second | None = None, *, broke_off: str | None = None) -> Results:
    """Judge a run of any pipeline, and first its negative controls.

    Never raises for bad evidence: an oracle that cannot read its evidence, or crashes, is unknown with the reason.

    Args:
        run: the run directory, or that of a control.
        write: whether `results.json` and `junit.xml` are written into it (and into those of its controls).
        second: is asked meanwhile; the verdict is unknown where it comes to something else. None: nobody is asked.
        broke_off: why the run ended early, where that is known.

    Raises:
        OSError: a result cannot be written.

    """
    case = Case(RunDirectory(run))
    if is_declared(case):
        case = DeclaredCase(RunDirectory(run))
    manifest = read_or(lambda: case.manifest, None)
    second = second if _expect(case).seconded else None
    is_control = manifest is not None and manifest.control is not None
    with ThreadPoolExecutor(1) as pool, _without_collection():
        ask = pool.submit(second, run).result if second is not None else None
        results = _judge_control(case, ask) if is_control else _judge_run(case, write, second, ask, broke_off)
    if write:
        _write_results(case.run, results)
    return results


@contextmanager
def _without_collection() -> Iterator[None]:
    """Have no cycles looked for: evidence is millions of objects without any, each of which would be passed often."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _write_results(run: RunDirectory, results: Results) -> None:
    """Write `results.json` and `junit.xml`."""
    run.write_json(run.results_path, results)
    write_atomically(run.junit_path, junit.to_xml(results))


def _judge_run(
    case: Case, write: bool, second: Second | None, ask: agreement.Ask | None, broke_off: str | None
) -> Results:
    outputs: dict[str, Output] = {}
    checked: list[faults.Checked] = []
    judged: list[tuple[Control, str | None]] = []
    expected = _expect(case)

    def sinks(case: Case) -> Oracle:
        oracle, found = expected.sinks(case)
        outputs.update(found)
        return oracle

    def hits(case: Case) -> Oracle:
        checked.extend(faults.check(case.events, backlog=read_or(lambda: case.backlog, None)))
        return vacuity.faults(case, checked)

    def controls(case: Case) -> Oracle:
        judged.extend(_control(case, planned, write, second) for planned in case.manifest.controls)
        return vacuity.controls(judged)

    oracles = [
        protect(multiset.NAME, multiset.NUMBER, sinks, case),
        protect(quiet.NAME, quiet.NUMBER, quiet.judge, case),
        protect(chain.NAME, chain.NUMBER, expected.chain, case),
        protect(messages.NAME, messages.NUMBER, messages.judge, case),
        *refused.judge(case),
        *(protect(*check, case) for check in expected.oracles(case)),
        protect("workload", 0, vacuity.workload, case),
        protect("acknowledged", 0, vacuity.demand_acknowledged, case),
        protect("history", 0, lambda case: _history(case, broke_off), case),
        protect("epochs", 0, vacuity.epochs, case),
        protect("coverage", 0, expected.coverage, case),
        *(protect(*check, case) for check in expected.guards),
        protect("faults", 0, hits, case),
        *_changes(case),
        protect(endings.NAME, 0, lambda case: endings.judge(case, checked), case),
        protect("controls", 0, controls, case),
        protect(bound.NAME, 0, bound.judge, case),
        *_agreement(case, ask, outputs),
        protect(claim.NAME, 0, lambda case: claim.minimum(case, checked, (one for one, _ in judged)), case),
    ]
    # Oracles by their numbers, then guards as they stand.
    oracles.sort(key=lambda one: (one.number == 0, one.number))
    verdict = worst(oracle.verdict for oracle in oracles)
    controls_found = [control for control, _ in judged]
    return _results(case, verdict, oracles=oracles, outputs=outputs, checked=checked, controls=controls_found)


def _expect(case: Case) -> Expectations:
    return DECLARED if isinstance(case, DeclaredCase) else USER_COUNTS


def _history(case: Case, broke_off: str | None) -> Oracle:
    """Demand that the run came to its end; of one that did not, tell the last words of its drivers."""
    found = vacuity.history(case)
    if broke_off is None and found.verdict is Verdict.PASS:
        return found
    ended = [one for one in case.events if one["event"] == "driver" and one.get("state") == "ended"]
    complaints = [f"the run broke off: {broke_off}"] if broke_off is not None else []
    complaints += [*found.evidence, *(f"a driver ended: {one.get('says')}" for one in ended)]
    return vacuity.guard("history", found.says, complaints)


def _changes(case: Case) -> list[Oracle]:
    """Whether the pipeline went on through every change, of a run that planned some or tells of one."""
    manifest = read_or(lambda: case.manifest, None)
    told = read_or(lambda: any(one["event"] == changes.EVENT for one in case.events), False)
    due = told or (manifest is not None and bool(manifest.changes))
    return [protect(changes.NAME, 0, changes.judge, case)] if due else []


def _agreement(case: Case, ask: agreement.Ask | None, outputs: dict[str, Output]) -> list[Oracle]:
    """Whether the second judge comes to the same, where it was asked."""
    if ask is None:
        return []

    def both(case: Case) -> Oracle:
        return agreement.judge(ask, outputs, 0 if case.manifest.control else case.lost)

    return [protect(agreement.NAME, agreement.NUMBER, both, case)]


def _judge_control(case: Case, ask: agreement.Ask | None) -> Results:
    """Judge a negative control by the oracle that has to find what it was built to show.

    That is oracle 1, or, for what only a reader of uncommitted records saw, oracle 3: to a reader of committed ones all
    has to be well then. Any other offence, or a kill that missed, shows nothing.
    """
    outputs: dict[str, Output] = {}
    checked: list[faults.Checked] = []

    def sinks(case: Case) -> Oracle:
        oracle, found = multiset.judge_sinks(case)
        outputs.update(found)
        return multiset.only(case.manifest.shows, oracle, found)

    def hits(case: Case) -> Oracle:
        checked.extend(faults.check(case.events, chained=False))
        return vacuity.faults(case, checked)

    oracles = [protect(multiset.NAME, multiset.NUMBER, sinks, case)]
    if case.manifest.shows == "retracted":
        oracles.append(protect(monotone.NAME, monotone.NUMBER, monotone.judge, case))
    guards = [
        protect("workload", 0, vacuity.workload, case),
        protect("acknowledged", 0, vacuity.demand_acknowledged, case),
        protect("faults", 0, hits, case),
        protect(own_history.NAME, 0, own_history.judge, case),
        protect(own_history.KILL, 0, lambda case: own_history.kill(case, checked), case),
        *_agreement(case, ask, outputs),
    ]
    # Here a guard outweighs the oracle: a duplicate without a kill is not what the control claims to show.
    *before, finds = oracles
    proven = all(one.verdict is Verdict.PASS for one in (*before, *guards))
    verdict = finds.verdict if proven else Verdict.UNKNOWN
    return _results(case, verdict, oracles=[*oracles, *guards], outputs=outputs, checked=checked, controls=[])


def _control(case: Case, planned: PlannedControl, write: bool, second: Second | None) -> tuple[Control, str | None]:
    run = case.run.control(planned.name)
    if not run.path.is_dir():
        return Control(name=planned.name, must=planned.must, verdict=Verdict.UNKNOWN), f"{run.path} is missing"
    manifest = read_or(run.manifest, None)
    if manifest is not None and not _belongs(manifest, planned):
        other = f"{run.manifest_path} is of run {manifest.run}, control {manifest.control}"
        return Control(name=planned.name, must=planned.must, verdict=Verdict.UNKNOWN), other
    results = judge(run.path, write, second)
    why = next((f"{one.name}: {one.says}" for one in results.oracles if one.verdict is results.verdict), None)
    return Control(name=planned.name, must=planned.must, verdict=results.verdict), why


def _belongs(manifest: Manifest, planned: PlannedControl) -> bool:
    """Whether a nested run is the one planned. One that must pass, the baseline, is judged as a whole run."""
    if planned.must == "pass":
        return manifest.control is None and manifest.run.endswith(f"/{planned.name}")
    return manifest.control == planned.name and planned.shows in (None, manifest.shows)


def protect(name: str, number: int, check: Callable[[_C], Oracle], case: _C) -> Oracle:
    """Run a checker; evidence that cannot be read, or a crash, makes it unknown."""
    try:
        return check(case)
    except EvidenceError as error:
        return Oracle(name=name, number=number, verdict=Verdict.UNKNOWN, says=str(error), evidence=(error.where,))
    except Exception as error:
        says = f"checker {name} crashed: {type(error).__name__}: {error}"
        return Oracle(name=name, number=number, verdict=Verdict.UNKNOWN, says=says)


def _results(
    case: Case,
    verdict: Verdict,
    *,
    oracles: Sequence[Oracle],
    outputs: dict[str, Output],
    checked: Sequence[faults.Checked],
    controls: Sequence[Control],
) -> Results:
    manifest, found = read_or(lambda: case.manifest, None), [one.fault for one in checked]
    sentence = _expect(case).claim
    if manifest is not None and manifest.control is not None:
        said = manifest.claim
    else:
        gave_up = read_or(lambda: loss.sentence(case.chain.epochs, case.lost), "")
        of_manifest = "" if manifest is None else manifest.claim + claim.but(gave_up)
        said = of_manifest if sentence is None else sentence(outputs, found, controls, oracles, gave_up)
    changed: list[Change] = read_or(lambda: changes.read(case.events), [])
    said += changes.sentence(changed)
    backlog, bounds = read_or(lambda: case.backlog, None), recovery.bounds(found, verdict)
    results = _summary(case, verdict, said, oracles=oracles, outputs=outputs, found=found, backlog=backlog)
    own = {"bounds": bounds, "bounds_say": recovery.BOUND_SAYS if bounds else "", "controls": tuple(controls)}
    own["changes"] = tuple(changed)
    return results.model_copy(update={**own, "root": binding.root_of(case.run.path)})


def _summary(
    case: Case,
    verdict: Verdict,
    said: str,
    *,
    oracles: Sequence[Oracle],
    outputs: dict[str, Output],
    found: Sequence[Fault],
    backlog: Backlog | None = None,
) -> Results:
    """What is said of any run: the oracles' words, and numbers as far as their evidence can be read."""
    manifest = read_or(lambda: case.manifest, None)
    return Results(
        claim=said,
        verdict=verdict,
        seed=manifest.seed if manifest else None,
        duration_s=read_or(lambda: _duration_s(case), 0.0),
        workload=read_or(lambda: _workload(case), Workload()),
        outputs=outputs,
        epochs=read_or(lambda: _epochs(case, backlog), Epochs()),
        faults=tuple(found),
        recovery=recovery.by_sort(found),
        versions=manifest.versions if manifest else {},
        git=manifest.git if manifest else {},
        oracles=tuple(oracles),
        reasons=tuple(f"{one.name}: {one.says}" for one in oracles if one.verdict is not Verdict.PASS),
    )


def _duration_s(case: Case) -> float:
    times: list[int] = [event["t"] for event in case.events]
    return (max(times) - min(times)) / 1000


def _workload(case: Case) -> Workload:
    return vacuity.count_workload(case.sends).model_copy(update={"sent": case.manifest.workload.sent})


def _epochs(case: Case, backlog: Backlog | None) -> Epochs:
    published = [event for event in case.events if event["event"] == "epoch" and event.get("state") == "published"]
    return Epochs(
        published=len({event.get("epoch") for event in published}),
        replayed=sum(event.get("repeat") is True for event in published),
        longest_gap_s=None if backlog is None else backlog.longest_gap_s(),
        waits=None if backlog is None else backlog.waits(),
        waits_by_minute=() if backlog is None else backlog.waits_by_minute(),
    )


def read_or(read: Callable[[], _T], default: _T) -> _T:
    """Read a number for the summary; the oracles already tell what of the evidence is missing."""
    try:
        return read()
    except EvidenceError:
        return default


def show(results: Results, console: Console) -> None:
    """Print a short verdict: a line per output and control, and the reasons when it is not pass."""
    style = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.UNKNOWN: "bold yellow"}[results.verdict]
    console.print(f"[{style}]{results.verdict.upper()}[/] {escape(results.claim)}")
    for sink, output in results.outputs.items():
        console.print(
            f"  {sink}: {output.observed} observed, {output.expected} expected, {output.missing} missing, "
            f"{output.duplicated} duplicated, {output.phantom} phantom, {output.corrupted} corrupted"
        )
    hits = sum(fault.hit for fault in results.faults)
    console.print(
        f"  epochs: {results.epochs.published} published, {results.epochs.replayed} replayed; "
        f"faults: {hits} of {len(results.faults)} hit a running epoch"
    )
    for control in results.controls:
        console.print(f"  control {escape(control.name)}: {control.verdict}, must {control.must}")
    for oracle in results.oracles:
        if oracle.verdict is not Verdict.PASS:
            console.print(f"  {oracle.verdict.upper()} {oracle.name}: {escape(oracle.says)}", highlight=False)
            for line in oracle.evidence[:5]:
                console.print(f"    {escape(line)}", highlight=False)
