"""Plays the mutants of modules one after the other, and keeps what came of each module.

What was kept is taken when product, tests and tool are the same: an interrupted trial goes on with the next module.
Where files of tests were added since and none of before has changed, what is killed stays killed: only survivors are
played, and only against the added files, as those of before let them pass.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from tests.mutants.module import Module, MutantsError
from tests.mutants.outcome import Outcome, read_outcome
from tests.mutants.tree import plant
from tests.planted.garden import UNIT, Bug
from tests.planted.limits import GIB, Limits, run_limited
from tests.planted.state import digest_of

# A mutant that takes all memory fails at its address space; what all of them have together is mutmut's own besides.
LIMITS = Limits(seconds=6 * 3600.0, resident_bytes=10 * GIB, address_bytes=4 * GIB)
TOLD_EVERY_S = 30.0
LOG = "log.txt"
STAGE = "tests.mutants.stage"
TOOL = ("maker.py", "outcome.py", "profile.py", "stage.py", "tree.py", "trial.py")
"""What of this package decides how a mutant is played."""
_STATUS = re.compile(r"(\d+)/(\d+) .*?🙁 (\d+)")
Say = Callable[[str], object]
Play = Callable[[Module, Say, Sequence[str]], Outcome]


def play(module: Module, say: Say, killed: Sequence[str] = (), limits: Limits = LIMITS) -> Outcome:
    """Make the mutants of a module and play its tests against each, but for those that others have `killed`.

    Raises:
        MutantsError: the tests fail without a mutant, or some mutant was not played.
        ServerError: the process cannot be started.

    """
    # Of what is copied, and not of what the checkout holds when it is done.
    key = digest(module)
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name).resolve()
        tree, scratch = folder / "tree", folder / "scratch"
        tree.mkdir()
        scratch.mkdir()
        plant(module, tree, killed)
        argv = [sys.executable, "-m", STAGE, "run", "--max-children", "1"]
        env = {
            # Of the checkout nothing is imported.
            "PYTHONPATH": "",
            "PYTHONHASHSEED": "1",
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(scratch),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
        }
        log = scratch / LOG
        with _telling(module.name, log, say):
            ended = run_limited(argv, cwd=tree, env=env, log=log, limits=limits)
        if ended.how != "exit":
            raise MutantsError(f"the mutants of {module.name} met a limit of all together: {ended.how}")
        if ended.code != 0:
            raise MutantsError(f"the mutants of {module.name} cannot be played (exit code {ended.code}): {_tail(log)}")
        return read_outcome(module, tree, key, ended.seconds)


def go(modules: Sequence[Module], at: Path, say: Say, player: Play = play) -> list[Outcome]:
    """Play modules, or take what was kept of them below `at`. Raises as `play`."""
    found = []
    for module in modules:
        kept = _kept(at, module)
        added = tuple(test for test in module.tests if kept is None or test not in kept.tests)
        if kept is None:
            outcome = _keep(at, player(module, say, ()))
        elif added:
            key = digest(module)
            played = player(module.model_copy(update={"tests": added}), say, kept.killed)
            whole = kept.with_added(played)
            outcome = _keep(at, whole.model_copy(update={"digest": key, "tests": module.tests}))
        else:
            outcome = kept
        killed = sum(mutant.killed for mutant in outcome.mutants)
        before = "" if kept is None else " (survivors played again)" if added else " (kept from before)"
        say(f"✓ {module.name}: {killed} of {len(outcome.mutants)} killed in {outcome.seconds:.0f} s{before}")
        found.append(outcome)
    return found


def digest(module: Module) -> str:
    """Digest of a module, of the product, of its tests and all that they import, and of this tool."""
    tests = Bug.model_construct(name=module.name, area="mutants", breaks="", edits=(), run=UNIT, tests=module.tests)
    hashed = hashlib.sha256(f"{digest_of(tests)}\0{module.model_dump_json()}".encode())
    for name in TOOL:
        hashed.update(Path(__file__).with_name(name).read_bytes())
    return hashed.hexdigest()


@contextmanager
def _telling(name: str, log: Path, say: Say) -> Iterator[None]:
    """Tell now and then how far mutmut is."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(TOLD_EVERY_S):
            say(f"… {name}: {progress(log)}")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def progress(log: Path) -> str:
    """Return how far mutmut is, by the last line that it wrote over and over."""
    found = _STATUS.findall(_end(log))
    if not found:
        return "making mutants, and playing the tests without one"
    played, made, survived = found[-1]
    return f"{played} of {made} mutants, {survived} survived"


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-5000:] if log.exists() else ""


def _tail(log: Path) -> str:
    lines = [line for line in re.split(r"[\r\n]+", _end(log)) if line.strip()]
    return " | ".join(lines[-6:])[-800:]


def _kept(at: Path, module: Module) -> Outcome | None:
    """Return what came of a module, or of some of its tests; None where any of what was played has changed."""
    try:
        kept = Outcome.model_validate_json((at / "outcomes" / f"{module.name}.json").read_bytes())
    except (OSError, ValidationError):
        return None
    unchanged = {*kept.tests} <= {*module.tests} and kept.digest == digest(
        module.model_copy(update={"tests": kept.tests})
    )
    return kept if unchanged else None


def _keep(at: Path, outcome: Outcome) -> Outcome:
    path = at / "outcomes" / f"{outcome.module}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(outcome.model_dump_json(indent=1) + "\n")
    beside.replace(path)
    return outcome
