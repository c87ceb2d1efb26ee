"""A soak in its folder: runs the parts that wait one after the other, notes each run, and keeps the sum of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from infra.console import Say
from infra.errors import UserError
from tests.harness.mixture import STACKS, Stack
from tests.harness.report import campaign, index
from tests.harness.report.listing import Listed, list_run
from tests.harness.results import Verdict
from tests.harness.run_directory import write_atomically
from tests.harness.soak.plan import Part
from tests.harness.soak.state import Standing, State

MARKS = {Standing.PASSED: "✓", Standing.FAILED: "✗", Standing.UNKNOWN: "…", Standing.WAITING: "…"}

Play = Callable[[Part], None]
More = Callable[[State], Part | None]


class SoakError(UserError):
    """The soak cannot go on; the message says why and what to do."""


@dataclass
class Soak:
    """A soak in its folder.

    Attributes:
        at: the folder: `state.json`, and the sum of the runs as `results.json` and `report.html`.
        runs: where runs make their directories.
        play: runs a part to its end; raises KeyboardInterrupt or SystemExit when that was asked for.
        say: told what is under way.
        seconds: a clock.
        state: as the file holds it.
    """

    at: Path
    runs: Path
    play: Play
    say: Say
    seconds: Callable[[], float] = time.monotonic
    state: State = field(init=False)

    @property
    def state_path(self) -> Path:
        """Where the state is kept."""
        return self.at / "state.json"

    def open(self, name: str) -> None:
        """Read the state, or begin one of that name; a run that was under way when it was written is settled first.

        Raises:
            SoakError: the file is there and is none.
        """
        try:
            self.state = State.model_validate_json(self.state_path.read_bytes())
        except FileNotFoundError:
            self.state = State(name=name)
            return
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the document"
            raise SoakError(
                f"{self.state_path}: {where}: {first['msg']}; take the file again, or give AT= another folder"
            ) from error
        if self.state.open is not None:
            self._settle(0.0)

    def keep(self, state: State) -> None:
        """Write the state, whole or not at all."""
        write_atomically(self.state_path, state.model_dump_json(indent=1).encode() + b"\n")
        self.state = state

    def take(self, run: Path) -> None:
        """Count a run that was started by hand, for the first part that waits and whose run it is.

        Raises:
            SoakError: it is no run of such a part, or was not judged.
        """
        found = list_run(run)
        of = [one for one in self.state.parts if one.is_run(found.manifest)]
        waiting = [one for one in of if self.state.standing(one.name) is Standing.WAITING]
        if run.resolve().parent != self.runs.resolve():
            raise SoakError(f"{run} is not below {self.runs}")
        if any(one.run == run.name for one in self.state.attempts):
            raise SoakError(f"{run} is counted already")
        if found.gaps or not waiting:
            why = f"part {of[0].name} has its run" if of else "no part has its settings"
            raise SoakError(f"{run} is no run of a part that waits: {found.gaps[0] if found.gaps else why}")
        begun = self.state.begun(waiting[0], int(found.started_ms or 0))
        self.keep(begun.ended(run.name, Verdict(found.verdict)))
        self.say(f"  {waiting[0].name}: {found.verdict}, {run.name}")

    def go(self, stacks: Sequence[Stack], more: More = lambda _: None) -> Verdict:
        """Run what waits, to the first failure; the verdict of these stacks.

        Args:
            stacks: parts of others are left alone.
            more: draws one more part when none waits; None ends it.

        Raises:
            SoakError: the runs of the state are not there any more.
        """
        lost: set[str] = set()
        self._sum()
        while (part := self._next(stacks, lost, more)) is not None:
            number = [one.name for one in self.state.parts].index(part.name) + 1
            self.say(
                f"… part {number} of {len(self.state.parts)}, {part.name}: {part.stack}, seed {part.seed}, "
                f"{part.records:,} records, {part.faults}"
            )
            self.keep(self.state.begun(part, time.time_ns() // 1_000_000))
            began = self.seconds()
            self.play(part)
            if not self._settle(self.seconds() - began):
                lost.add(part.name)
                if more(self.state) is not None:
                    break
            self._sum()
        return self._tell(stacks, lost)

    def _next(self, stacks: Sequence[Stack], lost: Collection[str], more: More) -> Part | None:
        part = self.state.next_part(stacks, lost)
        if part is not None or self.state.verdict(STACKS) is Verdict.FAIL:
            return part
        further = more(self.state)
        if further is not None:
            self.keep(self.state.model_copy(update={"parts": (*self.state.parts, further)}))
        return further

    def _settle(self, took_s: float) -> bool:
        """Note how the open run ended; whether it left a verdict. One without is not counted."""
        attempt = self.state.open
        if attempt is None:
            return False
        part = self.state.part(attempt.part)
        found = _run_of(part, self.runs, attempt.started_at)
        if found is None:
            self.keep(self.state.without_open())
            self.say(f"… {part.name}: its run left no verdict, and is not counted")
            return False
        verdict = Verdict(found.verdict)
        self.keep(self.state.ended(found.path.name, verdict, took_s))
        again = verdict is Verdict.UNKNOWN and self.state.standing(part.name) is Standing.WAITING
        mark = MARKS[Standing(verdict)]
        self.say(f"{mark} {part.name}: {verdict}, {found.path.name}{', once more' if again else ''}")
        return True

    def _sum(self) -> None:
        """Write the page of all that ended."""
        runs = [Path(os.path.relpath(self.runs / name)) for name in self.state.runs()]
        try:
            if runs:
                campaign.write(runs, self.at)
                index.write(self.runs)
        except campaign.CampaignError as error:
            raise SoakError(f"{error}; put it back, or begin another soak (AT=another folder)") from error

    def _tell(self, stacks: Collection[Stack], lost: Collection[str]) -> Verdict:
        verdict = self.state.verdict(stacks)
        for one in self.state.parts:
            standing = self.state.standing(one.name)
            run = next((of.run for of in reversed(self.state.counting(one.name))), None)
            left = "could not be run" if one.name in lost else "left" if one.stack in stacks else f"left, {one.stack}"
            hint = (
                f"; ARGS='--again {one.name}' sets it aside" if standing in (Standing.FAILED, Standing.UNKNOWN) else ""
            )
            self.say(f"{MARKS[standing]} {one.name}: {f'{standing}, {run}' if run else left}{hint}")
        for of in self.state.attempts:
            if of.set_aside:
                self.say(f"  set aside: {of.run}, {of.verdict}, of {of.part}")
        if self.state.runs():
            self.say(f"{verdict}: {os.path.relpath(self.at / 'report.html')}")
        return verdict


def _run_of(part: Part, runs: Path, since_ms: int) -> Listed | None:
    """The newest judged run of a part that began since then."""
    for path in sorted((one for one in runs.glob("[0-9]*") if (one / "results.json").is_file()), reverse=True):
        found = list_run(path)
        if (found.started_ms or 0) >= since_ms and not found.gaps and part.is_run(found.manifest):
            return found
    return None
