"""A campaign in parts: the results of several run directories added up, as one page and one results.json."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from infra.errors import UserError
from tests.harness.checkers.recovery import BOUND_SAYS, bounds, by_sort, by_step
from tests.harness.pack.archive import is_packed, name_of
from tests.harness.report import matrix, recovery, typeset
from tests.harness.report.controls import KINDS
from tests.harness.report.listing import Listed, list_run, page_of
from tests.harness.report.page import TEMPLATES, VERDICTS, outputs_of, sum_row, total
from tests.harness.results import CAMPAIGNS, CampaignResults, Epochs, Output, Part, Results, Verdict, Workload, worst
from tests.harness.run_directory import RunDirectory, write_atomically


class CampaignError(UserError):
    """The directories named are no parts of one campaign; the message says which."""


def sum_up(directories: Sequence[Path]) -> CampaignResults:
    """Add up the `results.json` of run directories; one that cannot be read makes the campaign unknown.

    Raises:
        CampaignError: none is named, one is no directory, is named twice, or is that of a control.

    """
    found = [_part(path) for path in _different(directories)]
    reasons = [reason for _, _, why in found for reason in why]
    judged = [(part, results) for part, results, _ in found if results is not None]
    lacking = _lacking([part for part, _, _ in found])
    reasons += lacking
    verdict = worst([*(part.verdict for part, _, _ in found), *(Verdict.UNKNOWN for _ in lacking)])
    # A part that is unknown shows nothing, so its faults prove nothing; after a violation none bounds anything.
    proven = [fault for part, results in judged if part.verdict is Verdict.PASS for fault in results.faults]
    faults = [fault for _, results in judged for fault in results.faults]
    bounded = bounds(proven, Verdict.FAIL if verdict is Verdict.FAIL else Verdict.PASS)
    gaps = [gap for _, results in judged if (gap := results.epochs.longest_gap_s) is not None]
    return CampaignResults(
        verdict=verdict,
        violations=sum(one.verdict is Verdict.FAIL and one.number > 0 for _, of in judged for one in of.oracles),
        parts=tuple(part for part, _, _ in found),
        duration_s=round(sum(results.duration_s for _, results in judged), 3),
        workload=_workload([results.workload for _, results in judged]),
        outputs=_outputs([results.outputs for _, results in judged]),
        epochs=Epochs(
            published=sum(results.epochs.published for _, results in judged),
            replayed=sum(results.epochs.replayed for _, results in judged),
            longest_gap_s=max(gaps, default=None),
        ),
        recovery=by_sort(faults),
        struck=by_step(faults),
        bounds=bounded,
        bounds_say=BOUND_SAYS if bounded else "",
        reasons=tuple(reasons),
    )


def write(directories: Sequence[Path], to: Path) -> tuple[CampaignResults, Path]:
    """Write `results.json` and `report.html` of a campaign into a directory; what was summed up, and the page's path.

    Raises:
        CampaignError: as `sum_up`, or `to` is one of the parts.
        OSError: they cannot be written.

    """
    if to.resolve() in {path.resolve() for path in directories}:
        raise CampaignError(f"{to} is a run directory of the campaign; give the sum a directory of its own")
    if (to / "manifest.json").exists():
        raise CampaignError(f"{to} is a run directory; give the sum a directory of its own")
    results = sum_up(directories)
    directory = RunDirectory(to)
    directory.write_json(directory.results_path, results)
    write_atomically(directory.report_path, render(results, to).encode())
    return results, directory.report_path


def render(results: CampaignResults, at: Path) -> str:
    """Draw the page of a campaign; links to its parts are relative to `at`."""
    document = results.model_dump(mode="json")
    outputs = outputs_of(document)
    return TEMPLATES.get_template("campaign.html.j2").render(
        results=results,
        verdict_says=VERDICTS[results.verdict],
        totals=[total(kind, outputs) for kind in KINDS],
        facts=_facts(results),
        outputs=outputs,
        total_row=sum_row(outputs),
        sorts=recovery.sorts(document),
        matrix=matrix.matrix(document),
        bounds=recovery.bounds(document),
        parts=[_row(part, at) for part in results.parts],
    )


def _different(directories: Sequence[Path]) -> list[Listed]:
    if not directories:
        raise CampaignError("name the run directories of the campaign")
    found: dict[str, Listed] = {}
    for path in directories:
        if not (path.is_dir() or is_packed(path)):
            raise CampaignError(f"there is no run directory {path}; those that there are lie below runs/")
        run = list_run(path)
        if run.manifest.get("control") is not None or path.resolve().parent.name == "controls":
            raise CampaignError(f"{path} is a control, no run of its own: name the run that it is in")
        # A copy has the same name: its faults and records would count twice.
        if run.name in found:
            raise CampaignError(f"{path} is run {run.name}, which {found[run.name].path} is too; name each run once")
        found[run.name] = run
    return list(found.values())


def _part(run: Listed) -> tuple[Part, Results | None, list[str]]:
    where = str(run.path)
    unread = Part(
        run=where,
        stack=run.stack,
        commit=run.commit,
        seed=run.seed,
        verdict=Verdict.UNKNOWN,
        faults_planned=run.planned,
    )
    if run.gaps:
        return unread, None, [f"{where}: {gap}" for gap in run.gaps]
    try:
        results = Results.model_validate(run.results)
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{where}: results.json, {'.'.join(map(str, first['loc']))}: {first['msg']}; judge the run again"
        return unread, None, [why]
    part = unread.model_copy(
        update={
            "verdict": results.verdict,
            "duration_s": results.duration_s,
            "hits": sum(fault.hit for fault in results.faults),
            "exact": bool(results.outputs) and all(output.exact for output in results.outputs.values()),
            "controls": sum(one.must == "fail" and one.verdict is Verdict.FAIL for one in results.controls),
            "workload": results.workload,
            "longest_gap_s": results.epochs.longest_gap_s,
        }
    )
    said = results.reasons or ("it gives no reason",)
    return part, results, [] if results.verdict is Verdict.PASS else [f"{where} is {results.verdict}: {said[0]}"]


def _lacking(parts: Sequence[Part]) -> list[str]:
    """Say on which stacks no part of a campaign had a negative control: alone such a part claims none."""
    stacks = [f"campaign {one}" for one in CAMPAIGNS]
    return [
        f"no part on stack {stack} had a negative control that failed as it must: add one that has"
        for stack in stacks
        if (of_it := [part for part in parts if part.stack == stack]) and not any(part.controls for part in of_it)
    ]


def _workload(of: Sequence[Workload]) -> Workload:
    ids = [one.unique_ids for one in of]
    known = [one for one in ids if one is not None]
    return Workload(
        sent=sum(one.sent for one in of),
        acknowledged=sum(one.acknowledged for one in of),
        unique_ids=sum(known) if len(known) == len(ids) else None,
        duplicates_sent=sum(one.duplicates_sent for one in of),
        late_sent=sum(one.late_sent for one in of),
        malformed_sent=sum(one.malformed_sent for one in of),
    )


def _outputs(of: Sequence[dict[str, Output]]) -> dict[str, Output]:
    found: dict[str, Output] = {}
    for outputs in of:
        for sink, output in outputs.items():
            found[sink] = found.get(sink, Output()).plus(output)
    return found


def _facts(results: CampaignResults) -> list[tuple[str, str, str]]:
    workload, faults = results.workload, results.recovery
    commits = sorted({part.commit for part in results.parts} - {""})
    hits, injected = sum(one.hits for one in faults), sum(one.injected for one in faults)
    return [
        (
            "unique ids",
            typeset.count(workload.unique_ids),
            f"of {typeset.count(workload.acknowledged)} records acknowledged",
        ),
        ("copies", typeset.count(workload.duplicates_sent), _share(workload.duplicates_sent, workload)),
        ("late", typeset.count(workload.late_sent), _share(workload.late_sent, workload)),
        ("faults that hit", typeset.count(hits), f"of {typeset.count(injected)} injected"),
        ("violations", typeset.count(results.violations), "oracles that said fail"),
        ("epochs published", typeset.count(results.epochs.published), f"{results.epochs.replayed} repeated"),
        ("longest gap", typeset.seconds(results.epochs.longest_gap_s), "without a publication while records waited"),
        ("runs", typeset.count(len(results.parts)), f"{typeset.seconds(results.duration_s, 0)} in all"),
        ("commits", typeset.count(len(commits)), ", ".join(commits) or "none of the runs says its own"),
    ]


def _share(number: int, of: Workload) -> str:
    return f"{typeset.percent(number / of.acknowledged)} of the records" if of.acknowledged else ""


def _row(part: Part, at: Path) -> dict[str, Any]:
    path = Path(part.run)
    page = page_of(path)
    return {
        "name": name_of(path),
        "link": quote(os.path.relpath(page, at)) if page else "",
        "stack": part.stack or typeset.NOT_KNOWN,
        "seed": typeset.NOT_KNOWN if part.seed is None else str(part.seed),
        "verdict": str(part.verdict),
        "faults": f"{typeset.count(part.hits)} of {typeset.count(part.faults_planned)}",
        "ids": typeset.count(part.workload.unique_ids),
        "took": typeset.seconds(part.duration_s, 0),
        "commit": part.commit or typeset.NOT_KNOWN,
    }
