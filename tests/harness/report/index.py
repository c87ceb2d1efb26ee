"""The index of runs: one page with a line per run directory, the newest first."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.harness.report import typeset
from tests.harness.report.lenient import mapping, mappings, text, whole
from tests.harness.report.listing import VERDICTS, Listed, listed
from tests.harness.report.page import TEMPLATES
from tests.harness.report.recording import read_object
from tests.harness.run_directory import write_atomically

NAME, SOAKS = "index.html", "soak"
_RUN = re.compile(r"\d{8}-\d{6}-")
"""How a run directory's name begins: one without any readable file is listed too."""


def write(runs: Path) -> Path:
    """Write `index.html` of all run directories below `runs`, in one step, and return its path.

    Raises:
        FileNotFoundError: there is no such directory.
        OSError: it cannot be written.

    """
    page = render(runs)
    write_atomically(runs / NAME, page.encode())
    return runs / NAME


def render(runs: Path) -> str:
    """Draw the index: a pure function of the run directories.

    Raises:
        FileNotFoundError: there is no such directory.

    """
    if not runs.is_dir():
        raise FileNotFoundError(f"{runs} does not exist; name the directory that holds the run directories, like runs/")
    found = sorted((listed(path) for path in runs.iterdir() if _is_run(path)), key=_age)
    rows = [_row(run) for run in reversed(found)]
    verdicts = [row["verdict"] for row in rows]
    counts = [(verdicts.count(verdict), verdict) for verdict in ("pass", "fail", "unknown") if verdict in verdicts]
    return TEMPLATES.get_template("index.html.j2").render(
        rows=rows, counts=counts, campaigns=_campaigns(runs), hits=sum(run.hits or 0 for run in found)
    )


def _is_run(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    return bool(_RUN.match(path.name)) or (path / "manifest.json").is_file()


def _campaigns(runs: Path) -> list[dict[str, Any]]:
    """Sums of runs, which have parts and no manifest, by name; those of soaks have a folder of their own."""
    found = []
    there = [path for path in (*runs.iterdir(), *(runs / SOAKS).glob("*")) if not _is_run(path)]
    for path in sorted(path for path in there if (path / "report.html").is_file()):
        results = read_object(path / "results.json", "results.json", [])
        if parts := mappings(results.get("parts")):
            said = text(results.get("verdict"))
            found.append(
                {
                    "name": path.name, "link": f"{quote(str(path.relative_to(runs)))}/report.html",
                    "runs": typeset.count(len(parts)),
                    "verdict": said if said in VERDICTS else "unknown",
                }
            )  # fmt: skip
    return found


def _age(run: Listed) -> tuple[float, str]:
    return run.started_ms or _named(run.path.name), run.path.name


def _named(name: str) -> float:
    """Return the moment in a run's name, which says when it began though nothing of it can be read; else 0."""
    return typeset.moment_of(name[:15]) if _RUN.match(name) else 0.0


def _row(run: Listed) -> dict[str, Any]:
    exact, sinks = run.exact
    page = "report.html" if run.reported else "results.json" if run.results else ""
    return {
        "name": run.name,
        "link": f"{quote(run.path.name)}/{page}" if page else "",
        "date": typeset.date(run.started_ms or _named(run.path.name)),
        "commit": run.commit,
        "stack": run.stack or typeset.NOT_KNOWN,
        "claim": text(run.results.get("claim")) or text(run.manifest.get("claim")),
        "seed": typeset.NOT_KNOWN if run.seed is None else str(run.seed),
        "verdict": run.verdict,
        "faults": f"{typeset.count(run.hits)} of {typeset.count(run.planned)}",
        "sinks": f"{exact} of {sinks}" if run.results else typeset.NOT_KNOWN,
        "acknowledged": typeset.count(whole(mapping(run.results.get("workload")).get("acknowledged"))),
        "gaps": run.gaps,
    }
