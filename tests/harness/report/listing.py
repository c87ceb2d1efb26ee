"""What is known of a run, kept or not, without its history: from its manifest and results, for lists of runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.pack.archive import Pack, PackError, is_packed, name_of
from tests.harness.pack.files import MANIFEST, RESULTS
from tests.harness.report.lenient import mapping, mappings, real, text, whole
from tests.harness.report.recording import object_in, read_object

VERDICTS = ("pass", "fail", "unknown")
PAGES = ("report.html", "page.html", "table.md", RESULTS)
_READ = (MANIFEST, RESULTS)
_WRONG = ("missing", "duplicated", "phantom", "corrupted")


@dataclass(frozen=True)
class Listed:
    """One run as a list shows it. `gaps` says in sentences what could not be read; its verdict is then unknown."""

    path: Path
    manifest: dict[str, Any]
    results: dict[str, Any]
    gaps: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The run's own name, else that of where it is."""
        return text(self.manifest.get("run")) or name_of(self.path)

    @property
    def started_ms(self) -> float | None:
        """When it began, in ms since 1970."""
        return real(self.manifest.get("started_at"))

    @property
    def verdict(self) -> str:
        """Pass, fail or unknown; without readable results it is unknown."""
        said = text(self.results.get("verdict"))
        return said if said in VERDICTS and not self.gaps else "unknown"

    @property
    def stack(self) -> str:
        """What it was: a suite on the cluster, a campaign, or the demo; nothing when it does not say."""
        settings = mapping(self.manifest.get("settings"))
        for name in ("campaign", "suite"):
            if said := text(settings.get(name)):
                return f"{name} {said}"
        return text(self.manifest.get("on")) or ("demo" if settings else "")

    @property
    def commit(self) -> str:
        """The commit it was recorded from, in short, and whether the tree held more; nothing when it does not say."""
        git = mapping(self.manifest.get("git"))
        commit = text(git.get("commit"))[:12]
        return f"{commit} with changes" if commit and git.get("dirty") is not False else commit

    @property
    def seed(self) -> int | None:
        """What everything was drawn from."""
        seed = whole(self.results.get("seed"))
        return whole(self.manifest.get("seed")) if seed is None else seed

    @property
    def faults(self) -> list[dict[str, Any]]:
        """The faults as they were judged."""
        return mappings(self.results.get("faults"))

    @property
    def hits(self) -> int | None:
        """How many faults hit; None of a run that was not judged, or has none."""
        return sum(fault.get("hit") is True for fault in self.faults) if "faults" in self.results else None

    @property
    def planned(self) -> int | None:
        """How many faults had to hit."""
        return whole(self.manifest.get("faults_planned"))

    @property
    def exact(self) -> tuple[int, int]:
        """How many sinks are exact, and of how many."""
        outputs = [mapping(row) for row in mapping(self.results.get("outputs")).values()]
        return sum(all(whole(row.get(name)) == 0 for name in _WRONG) for row in outputs), len(outputs)


def page_beside(packed: Path) -> Path:
    """Where a kept run is shown, once it is drawn (tests.harness.report.kept)."""
    return packed.with_name(f"{name_of(packed)}.html")


def page_of(run: Path) -> Path | None:
    """Where a run is shown, kept or not."""
    if is_packed(run):
        return page_beside(run)
    return next((run / name for name in PAGES if (run / name).is_file()), None)


def list_run(run: Path) -> Listed:
    """Read what a list shows of a run directory, or of a kept run; what cannot be read becomes a gap."""
    gaps: list[str] = []
    manifest, results = (
        _read_packed(run, gaps) if is_packed(run) else (read_object(run / name, name, gaps) for name in _READ)
    )
    if not gaps and text(results.get("verdict")) not in VERDICTS:
        gaps.append(f"{RESULTS} holds no verdict.")
    return Listed(run, manifest, results, gaps)


def _read_packed(run: Path, gaps: list[str]) -> Iterator[dict[str, Any]]:
    try:
        members = Pack.of(run).members
    except PackError as error:
        gaps.append(f"{error}.")
        members = {}
    for name in _READ:
        yield object_in(members.get(name), name, gaps) if members else {}
