"""The index of runs: one page with a line per run directory, the newest first."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.harness.pack.archive import is_packed, name_of
from tests.harness.report import typeset
from tests.harness.report.lenient import mapping, mappings, text, whole
from tests.harness.report.listing import VERDICTS, Listed, list_run, page_of
from tests.harness.report.page import TEMPLATES
from tests.harness.report.recording import read_object
from tests.harness.run_directory import write_atomically

NAME, SOAKS = "index.html", "soak"
SAYS = ("claim", "command")
"""What says what a run is of."""
_RUN = re.compile(r"\d{8}-\d{6}-")
"""How a run directory's name begins: one without any readable file is listed too."""


def write(runs: Path, *, kept: bool = False) -> Path:
    """Write `index.html` of all run directories below `runs`, in one step, and return its path.

    Args:
        runs: the folder.
        kept: whether it holds evidence that is kept: then folders of runs below it are looked into too.

    Raises:
        FileNotFoundError: there is no such directory.
        OSError: it cannot be written.

    """
    page = render(runs, kept=kept)
    write_atomically(runs / NAME, page.encode())
    return runs / NAME


def render(runs: Path, *, kept: bool = False) -> str:
    """Draw the index: a pure function of the run directories; `kept` as of `write`.

    Raises:
        FileNotFoundError: there is no such directory.

    """
    if not runs.is_dir():
        raise FileNotFoundError(f"{runs} does not exist; name the directory that holds the run directories, like runs/")
    folders = [path for path in runs.iterdir() if path.is_dir() and not path.is_symlink()]
    if kept:
        folders += [path for folder in folders if not _parts(folder) for path in folder.iterdir()]
    found = sorted((list_run(path) for path in folders if _is_run(path)), key=_age)
    rows = [_row(run, runs, kept=kept) for run in reversed(found)]
    verdicts = [row["verdict"] for row in rows]
    counts = [(verdicts.count(verdict), verdict) for verdict in ("pass", "fail", "unknown") if verdict in verdicts]
    return TEMPLATES.get_template("index.html.j2").render(
        rows=rows, counts=counts, campaigns=_campaigns(runs), hits=sum(run.hits or 0 for run in found)
    )


def _is_run(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return is_packed(path)
    return bool(_RUN.match(path.name)) or (path / "manifest.json").is_file()


def _campaigns(runs: Path) -> list[dict[str, Any]]:
    """Sums of runs, which have parts and no manifest, by name; those of soaks have a folder of their own."""
    found = []
    there = [path for path in (*runs.iterdir(), *(runs / SOAKS).glob("*")) if not _is_run(path)]
    for path in sorted(path for path in there if (path / "report.html").is_file()):
        if parts := _parts(path):
            said = text(read_object(path / "results.json", "results.json", []).get("verdict"))
            commits = {text(part.get("commit")) for part in parts}
            found.append(
                {
                    "name": path.name,
                    "link": f"{quote(str(path.relative_to(runs)))}/report.html",
                    "runs": typeset.count(len(parts)),
                    "verdict": said if said in VERDICTS else "unknown",
                    "commits": ", ".join(sorted(commits - {""})),
                }
            )
    return found


def _parts(path: Path) -> list[dict[str, Any]]:
    """Runs of a sum; none of anything else."""
    return mappings(read_object(path / "results.json", "results.json", []).get("parts"))


def _age(run: Listed) -> tuple[float, str]:
    return run.started_ms or _moment_in(run.path.name), run.path.name


def _moment_in(name: str) -> float:
    """Return the moment in a run's name, which says when it began though nothing of it can be read; else 0."""
    return typeset.moment_of(name[:15]) if _RUN.match(name) else 0.0


def _row(run: Listed, runs: Path, *, kept: bool) -> dict[str, Any]:
    exact, sinks = run.exact
    told = (run.results, run.manifest)
    page = page_of(run.path)
    return {
        "name": str(run.path.with_name(name_of(run.path)).relative_to(runs)) if kept else run.name,
        "link": quote(str(page.relative_to(runs))) if page else "",
        "date": typeset.date(run.started_ms or _moment_in(run.path.name)),
        "commit": run.commit,
        "stack": run.stack or typeset.NOT_KNOWN,
        "claim": next((said for name in SAYS for of in told if (said := text(of.get(name)))), ""),
        "seed": typeset.NOT_KNOWN if run.seed is None else str(run.seed),
        "verdict": run.verdict,
        "faults": f"{typeset.count(run.hits)} of {typeset.count(run.planned)}",
        "sinks": f"{exact} of {sinks}" if sinks else typeset.NOT_KNOWN,
        "acknowledged": typeset.count(whole(mapping(run.results.get("workload")).get("acknowledged"))),
        "gaps": run.gaps,
    }
