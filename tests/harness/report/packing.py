"""Evidence to keep: of the runs of a campaign all that the judge reads, packed, with results and pages."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.checkers import agreement
from tests.harness.commit import PRODUCT, code_at, git_state, in_history
from tests.harness.pack import archive
from tests.harness.report import campaign
from tests.harness.report.lenient import mapping, mappings, text
from tests.harness.report.listing import listed
from tests.harness.report.recording import read_object
from tests.harness.results import OWN_PIPELINE, CampaignResults
from tests.harness.run_directory import write_atomically

LIMIT_BYTES = 20_000_000
SOAK_STATE = "state.json"
KEPT = ("manifest.json", "results.json")
PAGE = "report.html"
JUDGED = ("manifest.json", "history.jsonl", "sent.jsonl", "observed")
"""What a run has to have, and each of its controls: without it nobody judges it again."""
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
    named: Sequence[Path],
    to: Path,
    private: Sequence[Private],
    *,
    checkout: Path,
    any_verdict: bool = False,
    limit: int = LIMIT_BYTES,
) -> tuple[CampaignResults, int]:
    """Write what is kept of runs into a folder, with the page and `results.json` of their sum; those, and the bytes.

    Of each run, in a folder of its name: manifest, results, page, and the pack of all that the judge reads, of its
    controls too (tests.harness.pack). The same runs give the same bytes.

    Args:
        named: run directories, kept runs, or folders of a sum (`soak`, `report campaign`), which stand for their runs.
        to: the folder; it may hold nothing yet but texts (*.md).
        private: what must not stand in any file.
        checkout: whose history has to have the commits of the runs.
        any_verdict: whether runs that did not pass are packed too.
        limit: bytes, of all files.

    Raises:
        PackingError: something of that is not so; then nothing is written.
        CampaignError: the runs are none of one campaign; likewise.
    """
    runs = list(_runs_of(named))
    # Recorded in another checkout, a run may name its place there; judged again by a relative path it does not.
    private = [*private, *(Private("the path of a run", str(run.resolve())) for run in runs)]
    campaign.sum_up(runs)
    if to.exists() and (there := sorted(one.name for one in to.iterdir() if one.suffix != ".md")):
        raise PackingError(f"{to} holds {', '.join(there[:3])}: give another folder, or remove that")
    files: dict[Path, bytes] = {}
    by = text(git_state(checkout).get("commit")) or None
    for run in runs:
        _refuse(run, any_verdict, checkout)
    for run in runs:
        folder = Path(run.resolve().name)
        for name in (*KEPT, PAGE):
            files[folder / name] = (run / name).read_bytes()
            _check(folder / name, files[folder / name], private)
        if _is_kept(run):
            files[folder / archive.NAME] = (run / archive.NAME).read_bytes()
            continue
        packed = archive.pack(run, by)
        for name, content in packed.texts():
            _check(folder / name, content, private)
        files[folder / archive.NAME] = packed.compressed()
    for folder in named:
        if (state := folder / SOAK_STATE).is_file():
            files[Path(SOAK_STATE)] = state.read_bytes()
            _check(Path(SOAK_STATE), files[Path(SOAK_STATE)], private)
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


def _is_kept(run: Path) -> bool:
    """Whether an earlier call packed it: its files are taken as they are."""
    return (run / archive.NAME).is_file()


def _refuse(run: Path, any_verdict: bool, checkout: Path) -> None:
    """Raise where a run is no evidence."""
    found = listed(run)
    if found.gaps:
        raise PackingError(f"{run}: {found.gaps[0]}")
    if found.verdict != "pass" and not any_verdict:
        raise PackingError(f"{run} is {found.verdict}: --any-verdict packs it all the same")
    if not found.reported:
        raise PackingError(f"{run} has no page: `make report RUN={run}` draws it")
    _refuse_alone(run)
    if _is_kept(run):
        # What the judge reads is in its pack, of a commit that was looked at.
        return
    for folder in (run, *sorted(path for path in run.glob("controls/*") if path.is_dir())):
        for name in JUDGED:
            if not (folder / name).exists():
                raise PackingError(f"{folder / name} is missing")
        _refuse_commit(folder, checkout)


def _refuse_alone(run: Path) -> None:
    """Raise where one judge alone has looked; the second one does not know declared pipelines."""
    asked = {text(one.get("name")) for one in mappings(read_object(run / "results.json", "", []).get("oracles"))}
    settings = mapping(read_object(run / "manifest.json", "", []).get("settings"))
    if agreement.NAME not in asked and settings.get("campaign") != OWN_PIPELINE:
        raise PackingError(f"{run} was judged by one judge alone: `make check RUN={run}` asks both")


def _refuse_commit(run: Path, checkout: Path) -> None:
    """Raise where nobody else can have the code that a run was recorded with."""
    manifest = read_object(run / "manifest.json", "manifest.json", [])
    git = mapping(manifest.get("git"))
    commit = text(git.get("commit"))
    if not commit:
        raise PackingError(f"{run} names no commit: run it again from a clone of the repository")
    if git.get("dirty") is not False:
        raise PackingError(f"{run} was recorded from a tree with changes, which no commit holds: commit, and run again")
    held = in_history(checkout, commit)
    if held is False:
        raise PackingError(f"{run} is of commit {commit}, which is not in the history of HEAD: check out what has it")
    for package, digest in mapping(manifest.get("code")).items() if held else ():
        if package in PRODUCT and code_at(checkout, commit, package) != digest:
            raise PackingError(f"{run} is of commit {commit}, whose {package} is not the code that its drivers ran")


def _check(path: Path, content: bytes, private: Sequence[Private]) -> None:
    plain = content.decode(errors="replace")
    for one in private:
        if (where := one.found(plain)) is not None:
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
