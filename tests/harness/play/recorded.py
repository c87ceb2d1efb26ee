"""A recorded run: a run directory with a manifest, what is played into it, the verdict and the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.console import Console
from tests.harness import report
from tests.harness.checkers import binding
from tests.harness.history import History
from tests.harness.judge.verdict import judge
from tests.harness.report import index
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.second_judge.program import ask


def run_recorded(
    checkout: Path,
    seed: int,
    says: str,
    console: Console,
    *,
    manifest: Callable[[str], dict[str, Any]],
    play: Callable[[RunDirectory], None],
) -> Results:
    """Play a run and judge it; a play that raised is judged too, by what there is, and is never a pass.

    Args:
        checkout: where `runs/` is.
        seed: of the run; its name ends with it.
        says: what will be sent, in one line.
        console: tells what is under way.
        manifest: makes the document of a run of that name (tests.harness.manifest).
        play: writes history and evidence into the run directory.

    Raises:
        EvidenceError: the manifest is none that the judge can read; nothing was played.
        OSError: the run directory cannot be written to.
    """
    path = new_run(checkout / "runs", seed)
    directory = RunDirectory(path)
    console.say(f"run {path.relative_to(checkout)}, seed {seed}: {says}")
    directory.write_json(directory.manifest_path, manifest(path.name))
    # What the judge could not read is to end a run now, not after it was played.
    planned = directory.manifest()
    point_latest(path)
    broke_off = None
    try:
        play(directory)
    except Exception as error:
        # Also when all evidence was there already: what could not be tidied up is for somebody to look at.
        broke_off = f"{type(error).__name__}: {error}"
        with History(directory.history_path) as history:
            history.record("phase", phase="broken off")
        trace = directory.keep_trace()
        console.say(f"✗ the run broke off: {error}\n  details: {trace.relative_to(checkout)}")
    with console.step("judge"):
        binding.bind(path)
        results = judge(path, second=ask, broke_off=broke_off)
        page = report.write(path)
        for one in planned.controls:
            # A control that must pass is a whole run, with a page of its own.
            if one.must == "pass" and directory.control(one.name).path.is_dir():
                report.write(directory.control(one.name).path)
        index.write(path.parent)
    console.say(f"report {page.relative_to(checkout)}")
    return results
