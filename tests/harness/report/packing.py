"""Evidence to keep: of each run of a campaign a pack of all that the judge reads and said, and their sum."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from infra.errors import UserError
from tests.harness.checkers import agreement
from tests.harness.commit import PRODUCT, code_at, git_state, in_history
from tests.harness.pack.archive import SUFFIX, Pack, is_packed, name_of
from tests.harness.pack.archive import pack as packed_of
from tests.harness.pack.files import HISTORY, MANIFEST, OBSERVED, RESULTS, SENT
from tests.harness.report import campaign
from tests.harness.report.lenient import mapping, mappings, text
from tests.harness.report.listing import Listed, list_run
from tests.harness.report.recording import read_object
from tests.harness.results import OWN_PIPELINE, CampaignResults
from tests.harness.run_directory import write_atomically

LIMIT_BYTES = 20_000_000
SOAK_STATE = "state.json"
PAGE = "report.html"
JUDGED = (MANIFEST, HISTORY, SENT, OBSERVED)
"""What a run has to have, and each of its controls: without it nobody judges it again."""
_AROUND = 40


class PackingError(UserError):
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

    def find(self, content: str) -> str | None:
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
    step: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> tuple[CampaignResults, int]:
    """Write what is kept of runs into a folder, with the page and `results.json` of their sum; those, and the bytes.

    Of each run, `NAME.tar.xz`: the pack of all that the judge reads and said, of its controls too
    (tests.harness.pack). The same runs give the same bytes.

    Args:
        named: run directories, kept runs, or folders of a sum (`soak`, `report campaign`), which stand for their runs.
        to: the folder; it may hold nothing yet but texts (*.md).
        private: what must not stand in any file.
        checkout: whose history has to have the commits of the runs.
        any_verdict: whether runs that did not pass are packed too.
        limit: bytes, of all files.
        step: shows the packing of a run, which takes a minute for 200,000 records, as `infra.console.Console` does.

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
    for number, run in enumerate(runs, 1):
        # What is kept already stays as it is: this checkout may pack it otherwise.
        with step(f"{name_of(run)}, {number} of {len(runs)} runs"):
            packed = Pack.of(run) if is_packed(run) else packed_of(run, by)
            for name, content in packed.texts():
                _check(Path(name_of(run), name), content, private)
            files[_path_of_kept(run)] = run.read_bytes() if is_packed(run) else packed.compressed()
    for folder in named:
        if (state := folder / SOAK_STATE).is_file():
            files[Path(SOAK_STATE)] = state.read_bytes()
            _check(Path(SOAK_STATE), files[Path(SOAK_STATE)], private)
    _within(files, limit)
    return _write(files, runs, to, private, limit)


def _path_of_kept(run: Path) -> Path:
    """The file of a kept run, in the folder of the evidence."""
    return Path(f"{name_of(run)}{SUFFIX}")


def _runs_of(named: Sequence[Path]) -> Iterator[Path]:
    for path in named:
        if (path / MANIFEST).exists() or not (path / RESULTS).exists():
            yield path
            continue
        parts = mappings(read_object(path / RESULTS, RESULTS, []).get("parts"))
        if not parts:
            raise PackingError(f"{path} is neither a run directory nor the sum of some: name those below runs/")
        yield from (Path(text(part.get("run"))) for part in parts)


def _refuse(run: Path, any_verdict: bool, checkout: Path) -> None:
    """Raise where a run is no evidence."""
    found = list_run(run)
    if found.gaps:
        raise PackingError(f"{run}: {found.gaps[0]}")
    if found.verdict != "pass" and not any_verdict:
        raise PackingError(f"{run} is {found.verdict}: --any-verdict packs it all the same")
    _refuse_alone(found)
    if is_packed(run):
        # What the judge reads is in its pack, of a commit that was looked at.
        return
    for folder in (run, *sorted(path for path in run.glob("controls/*") if path.is_dir())):
        for name in JUDGED:
            if not (folder / name).exists():
                raise PackingError(f"{folder / name} is missing: `make check RUN={folder}` says what the run lacks")
        _refuse_commit(folder, checkout)


def _refuse_alone(run: Listed) -> None:
    """Raise where one judge alone has looked; the second one does not know declared pipelines."""
    asked = {text(one.get("name")) for one in mappings(run.results.get("oracles"))}
    settings = mapping(run.manifest.get("settings"))
    if agreement.NAME not in asked and settings.get("campaign") != OWN_PIPELINE:
        raise PackingError(f"{run.path} was judged by one judge alone: `make check RUN={run.path}` asks both")


def _refuse_commit(run: Path, checkout: Path) -> None:
    """Raise where nobody else can have the code that a run was recorded with."""
    manifest = read_object(run / MANIFEST, MANIFEST, [])
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
            raise PackingError(
                f"{run} is of commit {commit}, whose {package} is not what its drivers ran: run it again"
            )


def _check(path: Path, content: bytes, private: Sequence[Private]) -> None:
    plain = content.decode(errors="replace")
    for one in private:
        if (where := one.find(plain)) is not None:
            raise PackingError(f"{path}, {where}; it is not to be published")


def _within(files: Mapping[Path, bytes], limit: int) -> int:
    size = sum(map(len, files.values()))
    if size > limit:
        largest = max(files, key=lambda path: len(files[path]))
        raise PackingError(f"{size:,} bytes in all, of {limit:,} at most; the largest is {largest}: keep fewer runs")
    return size


def _write(
    files: dict[Path, bytes], runs: Sequence[Path], to: Path, private: Sequence[Private], limit: int
) -> tuple[CampaignResults, int]:
    made = not to.exists()
    # The sum names its runs as they lie there: from where we stand, never by a path of this machine.
    place = Path(os.path.relpath(to))
    try:
        for path, content in files.items():
            write_atomically(to / path, content)
        results, page = campaign.write([place / _path_of_kept(run) for run in runs], place)
        sums = {Path(path.name): path.read_bytes() for path in (page, page.with_name(RESULTS))}
        for path, content in sums.items():
            _check(path, content, private)
        return results, _within(files | sums, limit)
    except BaseException:
        for path in (*files, Path(RESULTS), Path(PAGE)):
            (to / path).unlink(missing_ok=True)
        if made:
            shutil.rmtree(to)
        raise
