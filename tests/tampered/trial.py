"""Tries alterations on a copy of a run: alters, binds anew, judges, and puts everything back."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from infra.errors import UserError
from tests.harness.checkers import binding
from tests.harness.judge.verdict import judge
from tests.harness.results import Results, Verdict
from tests.tampered.alterations import Alteration, Files
from tests.tampered.due import due_to_object
from tests.tampered.harmless import HARMLESS, Harmless
from tests.tampered.known import Known
from tests.unit.harness.tamper import bind

CRASH = "crash"
"""Stands for an oracle where the judge itself did not come to its end."""
WHOLE_EVERY = 20
"""Of so many alterations one is judged as a whole, too, whatever is known of the run."""


class TrialError(UserError):
    """Nothing can be said of an alteration. The message says of which, why and what to do."""


@dataclass(frozen=True)
class Tried:
    """What the judge said of an alteration.

    Attributes:
        alteration: the one.
        objecting: oracles that did not pass.
        harmless: the entry that lists it, or None.
        says: the first of their reasons; of a judge that crashed, how.

    """

    alteration: Alteration
    objecting: tuple[str, ...]
    says: str
    harmless: Harmless | None = None

    @property
    def due(self) -> tuple[str, ...]:
        """Oracles of which one at least has to object."""
        return due_to_object(self.alteration)

    @property
    def caught(self) -> bool:
        """Whether one of those objected whose matter it is, and the judge did not crash."""
        return CRASH not in self.objecting and any(one in self.due for one in self.objecting)

    @property
    def lost(self) -> bool:
        """Whether it is neither caught nor listed as harmless."""
        return not self.caught and (self.harmless is None or bool(self.objecting))


class Trial:
    """Copies of runs, to be altered one file at a time.

    Args:
        bases: the runs by name, not to be altered.
        files: their files.
        folder: for the copies; is created.

    Raises:
        TrialError: a run does not pass as it is.

    """

    def __init__(self, bases: dict[str, Path], files: Files, folder: Path) -> None:
        self._files, self._known = files, dict[str, Known]()
        self._runs: dict[str, Path] = {}
        for name, path in bases.items():
            # The name of the folder is that of the run.
            run = self._runs[name] = Path(shutil.copytree(path, folder / name / path.name))
            results = judge(run, write=False)
            if results.verdict is not Verdict.PASS:
                raise TrialError(f"the {name} run does not pass before it is altered: {'; '.join(results.reasons)}")
            self._known[name] = Known(run)

    def of(self, alteration: Alteration) -> Tried:
        """Try one alteration; the copies are as before then. Raises TrialError."""
        run, evidence = self._runs[alteration.run], self._files[alteration.run]
        path, altered = run / alteration.file, alteration.applied(evidence[alteration.file])
        made_anew = [name for name in evidence if Path(name).name in (binding.NAME, "history.jsonl")]
        try:
            path.unlink() if altered is None else path.write_bytes(altered)
            if alteration.bound:
                _bind(run)
            tried = self._judged(alteration, run)
        finally:
            for name in {alteration.file, *made_anew}:
                (run / name).write_bytes(evidence[name].raw)
        return tried

    def _judged(self, alteration: Alteration, run: Path) -> Tried:
        tried = _asked(alteration, run, self._known[alteration.run])
        evidence = self._files[alteration.run][alteration.file]
        listed = next((one for one in HARMLESS if alteration.bound and one.covers(alteration, evidence)), None)
        tried = replace(tried, harmless=listed)
        if tried.lost or alteration.number % WHOLE_EVERY == 0:
            whole = _asked(alteration, run, None)
            if whole.objecting != tried.objecting:
                raise TrialError(
                    f"{alteration}: the whole judge hears {whole.objecting or 'nobody'} object, by what is known of "
                    f"the run it would be {tried.objecting or 'nobody'}; correct what is remembered"
                )
        return tried


def _asked(alteration: Alteration, run: Path, known: Known | None) -> Tried:
    try:
        with nullcontext() if known is None else known.unless_altered(alteration.file):
            results: Results = judge(run, write=False)
    except Exception as error:
        # It has to find every run unknown that it cannot judge.
        return Tried(alteration, (CRASH,), f"the judge crashed: {type(error).__name__}: {error}")
    objecting: Sequence[str] = [one.name for one in results.oracles if one.verdict is not Verdict.PASS]
    return Tried(alteration, tuple(objecting), next(iter(results.reasons), ""))


def _bind(run: Path) -> None:
    """Bind a run anew, as far as that can be done: of some manifests it cannot."""
    try:
        bind(run)
    except (AttributeError, TypeError, OSError, ValueError):
        return
