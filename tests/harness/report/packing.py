"""Evidence to keep: what of the runs of a campaign goes into the repository, and a note of what does not."""

import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.harness.report import campaign
from tests.harness.report.lenient import mapping, mappings, text
from tests.harness.report.listing import listed
from tests.harness.report.recording import read_object
from tests.harness.results import CampaignResults
from tests.harness.run_directory import write_atomically

LIMIT_BYTES = 20_000_000
LEFT_OUT = "left-out.json"
SOAK_STATE = "state.json"
KEPT = ("manifest.json", "results.json")
PAGE, HISTORY = "report.html", "history.jsonl"
WHY = (
    "Left out for their size. What is sent follows from the seed; what the sinks hold is compared with it in "
    "results.json. With these files `make check RUN=` judges the run again."
)
_AROUND = 40


class PackingError(Exception):
    """The runs cannot be packed; the message says which, and why."""


@dataclass(frozen=True)
class Private:
    """Something of this machine that is not to be published.

    Attributes:
        what: for people, as `the home directory`.
        value: a path, or a name.
        word: whether only the whole word counts, as for names.
    """

    what: str
    value: str
    word: bool = False

    def found(self, content: str) -> str | None:
        """Where it first stands, with what is around it; None when it does not."""
        pattern = re.escape(self.value)
        match = re.search(rf"(?<![\w-]){pattern}(?![\w-])" if self.word else pattern, content)
        if match is None:
            return None
        line = content.count("\n", 0, match.start()) + 1
        around = content[max(match.start() - _AROUND, 0) : match.end() + _AROUND]
        return f"line {line} holds {self.what}: {around!r}"


def pack(
    named: Sequence[Path], to: Path, private: Sequence[Private], *, any_verdict: bool = False, limit: int = LIMIT_BYTES
) -> tuple[CampaignResults, int]:
    """Write what is kept of runs into a folder, with the page and `results.json` of their sum; those, and the bytes.

    Of each run, in a folder of its name: manifest, results, page, the history compressed, the same of its controls
    (without a page), and `left-out.json`. The same runs give the same bytes.

    Args:
        named: run directories, or folders of a sum (`soak`, `report campaign`), which stand for their runs.
        to: the folder; it may hold nothing yet but texts (*.md).
        private: what must not stand in any file.
        any_verdict: whether runs that did not pass are packed too.
        limit: bytes, of all files.

    Raises:
        PackingError: something of that is not so; then nothing is written.
        CampaignError: the runs are none of one campaign; likewise.
    """
    runs = list(_runs_of(named))
    campaign.sum_up(runs)
    if to.exists() and (there := sorted(one.name for one in to.iterdir() if one.suffix != ".md")):
        raise PackingError(f"{to} holds {', '.join(there[:3])}: give another folder, or remove that")
    files: dict[Path, bytes] = {}
    for run in runs:
        files |= {Path(run.resolve().name) / path: content for path, content in _kept(run, any_verdict).items()}
    for folder in named:
        if (state := folder / SOAK_STATE).is_file():
            files[Path(SOAK_STATE)] = state.read_bytes()
    for path, content in files.items():
        _check(path, content, private)
    _within(files, limit)
    return _written(files, runs, to, private, limit)


def _runs_of(named: Sequence[Path]) -> Iterator[Path]:
    for path in named:
        if (path / "manifest.json").exists() or not (path / "results.json").exists():
            yield path
            continue
        parts = mappings(read_object(path / "results.json", "results.json", []).get("parts"))
        if not parts:
            raise PackingError(f"{path} is neither a run directory nor the sum of some")
        yield from (Path(text(part.get("run"))) for part in parts)


def _kept(run: Path, any_verdict: bool) -> dict[Path, bytes]:
    """The files of a run that are packed, by their path in it."""
    found = listed(run)
    if found.gaps:
        raise PackingError(f"{run}: {found.gaps[0]}")
    if found.verdict != "pass" and not any_verdict:
        raise PackingError(f"{run} is {found.verdict}: --any-verdict packs it all the same")
    if mapping(found.manifest.get("git")).get("dirty") is not False:
        raise PackingError(f"{run} is not of a clean tree: commit, and run again; nothing else is kept as evidence")
    if not found.reported:
        raise PackingError(f"{run} has no page: `make report RUN={run}` draws it")
    kept = {Path(PAGE): (run / PAGE).read_bytes()}
    for folder in (run, *sorted(path for path in run.glob("controls/*") if path.is_dir())):
        for name in (*KEPT, HISTORY):
            path = folder / name
            if not path.is_file():
                raise PackingError(f"{path} is missing")
            content = path.read_bytes()
            inside = path.relative_to(run)
            if name == HISTORY:
                inside, content = inside.with_name(f"{name}.gz"), gzip.compress(content, mtime=0)
            kept[inside] = content
    packed = {str(path).removesuffix(".gz") for path in kept}
    left = [path for path in sorted(run.rglob("*")) if path.is_file() and str(path.relative_to(run)) not in packed]
    note = {"why": WHY, "files": [_noted(path, path.relative_to(run)) for path in left]}
    return kept | {Path(LEFT_OUT): orjson.dumps(note, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)}


def _noted(path: Path, name: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": str(name), "bytes": path.stat().st_size, "sha256": digest}


def _check(path: Path, content: bytes, private: Sequence[Private]) -> None:
    plain = gzip.decompress(content) if path.suffix == ".gz" else content
    for one in private:
        if (where := one.found(plain.decode(errors="replace"))) is not None:
            raise PackingError(f"{path}, {where}; it is not to be published")


def _within(files: Mapping[Path, bytes], limit: int) -> int:
    size = sum(map(len, files.values()))
    if size > limit:
        largest = max(files, key=lambda path: len(files[path]))
        raise PackingError(f"{size:,} bytes in all, and {limit:,} is the limit; the largest is {largest}")
    return size


def _written(
    files: dict[Path, bytes], runs: Sequence[Path], to: Path, private: Sequence[Private], limit: int
) -> tuple[CampaignResults, int]:
    made = not to.exists()
    # The sum names its runs as they lie there: from where we stand, never by a path of this machine.
    place = Path(os.path.relpath(to))
    try:
        for path, content in files.items():
            write_atomically(to / path, content)
        results, page = campaign.write([place / run.resolve().name for run in runs], place)
        sums = {Path(path.name): path.read_bytes() for path in (page, page.with_name("results.json"))}
        for path, content in sums.items():
            _check(path, content, private)
        return results, _within(files | sums, limit)
    except BaseException:
        for name in {path.parts[0] for path in (*files, Path("results.json"), Path(PAGE))}:
            one = to / name
            if one.is_dir():
                shutil.rmtree(one)
            else:
                one.unlink(missing_ok=True)
        if made:
            shutil.rmtree(to)
        raise
