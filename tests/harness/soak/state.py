"""How far a soak is: which runs its parts had, how they ended, and what is next; data and pure functions only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from tests.harness.mixture import Stack
from tests.harness.results import Verdict, worst
from tests.harness.soak.plan import Part, PlanError

TRIES = 2
"""Runs of a part that end unknown, after which it stays unknown."""


class PlanChangedError(PlanError):
    """The plan is not the one that this soak was begun with; the message says what differs."""


class Standing(StrEnum):
    """Where a part is."""

    WAITING = "waiting"
    PASSED = "pass"
    FAILED = "fail"
    UNKNOWN = "unknown"


class Attempt(BaseModel):
    """One run of a part.

    Attributes:
        part: its name.
        started_at: in ms since 1970.
        run: the name of its directory; None while it is not known how the run ended.
        verdict: None likewise.
        set_aside: somebody asked for another run of the part, and this one does not count any more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: str
    started_at: int
    run: str | None = None
    verdict: Verdict | None = None
    set_aside: bool = False


class State(BaseModel):
    """All of it, as `state.json` holds it.

    Attributes:
        name: of the plan, or `seed N` of a soak whose parts are drawn.
        parts: in their order.
        attempts: in theirs; only the last one may be open, without a verdict.
        spent_s: what the runs of a soak whose parts are drawn took.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    name: str
    parts: tuple[Part, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    spent_s: float = 0.0

    @property
    def open(self) -> Attempt | None:
        """The attempt of which it is not known how it ended: one that runs, or was interrupted."""
        return next((one for one in self.attempts if one.verdict is None), None)

    def part(self, name: str) -> Part:
        """The part of that name. Raises PlanError."""
        for one in self.parts:
            if one.name == name:
                return one
        raise PlanError(f"{self.name} has no part {name!r}; it has: {', '.join(one.name for one in self.parts)}")

    def counting(self, name: str) -> list[Attempt]:
        """The ended attempts of a part that count, the newest last."""
        return [one for one in self.attempts if one.part == name and one.verdict is not None and not one.set_aside]

    def standing(self, name: str) -> Standing:
        """Where a part is; a part that was unknown once is waiting."""
        ended = self.counting(name)
        verdicts = [one.verdict for one in ended]
        if Verdict.FAIL in verdicts:
            return Standing.FAILED
        if Verdict.PASS in verdicts:
            return Standing.PASSED
        return Standing.UNKNOWN if len(ended) >= TRIES else Standing.WAITING

    def next_part(self, stacks: Collection[Stack], without: Collection[str] = ()) -> Part | None:
        """The part to run now: the first that waits; None when there is none, or a part failed.

        Args:
            stacks: parts of others are left alone.
            without: names of parts that could not be started.
        """
        if any(self.standing(one.name) is Standing.FAILED for one in self.parts):
            return None
        return next(
            (
                one
                for one in self.parts
                if one.stack in stacks and one.name not in without and self.standing(one.name) is Standing.WAITING
            ),
            None,
        )

    def runs(self) -> list[str]:
        """The runs that the sum is made of: of each part the newest one that counts, in the order of the parts."""
        return [run for part in self.parts for run in [one.run for one in self.counting(part.name)][-1:] if run]

    def verdict(self, stacks: Collection[Stack]) -> Verdict:
        """Of the parts on these stacks, or of one that failed on another; a part that waits is unknown."""
        standings = {one.name: self.standing(one.name) for one in self.parts}
        found = [standings[one.name] for one in self.parts if one.stack in stacks]
        if Standing.FAILED in standings.values():
            return Verdict.FAIL
        return worst(Verdict.PASS if one is Standing.PASSED else Verdict.UNKNOWN for one in found)

    def begun(self, part: Part, at_ms: int) -> Self:
        """After the start of a part's run. What was open was interrupted, and is no more."""
        kept = self.without_open().attempts
        return self.model_copy(update={"attempts": (*kept, Attempt(part=part.name, started_at=at_ms))})

    def ended(self, run: str, verdict: Verdict, took_s: float = 0.0) -> Self:
        """After the end of the run that is open."""
        if self.open is None:
            raise ValueError(f"run {run} ended, and none is open")
        closed = self.open.model_copy(update={"run": run, "verdict": verdict})
        kept = self.without_open().attempts
        return self.model_copy(update={"attempts": (*kept, closed), "spent_s": round(self.spent_s + took_s, 3)})

    def without_open(self) -> Self:
        """Without the open attempt: it was interrupted, or never began."""
        return self.model_copy(update={"attempts": tuple(one for one in self.attempts if one.verdict is not None)})

    def again(self, name: str) -> Self:
        """With the part waiting again, whatever its runs came to; they stay in the state, set aside.

        Raises:
            PlanError: there is no part of that name.
        """
        self.part(name)
        attempts = tuple(
            one.model_copy(update={"set_aside": True}) if one.part == name and one.verdict is not None else one
            for one in self.attempts
        )
        return self.model_copy(update={"attempts": attempts})

    def grown(self, name: str, parts: Sequence[Part]) -> Self:
        """With the parts of the plan as it is now: it may have got more at its end, and nothing else.

        Raises:
            PlanChangedError: it is another plan, or a part was changed, moved or taken out.
        """
        todo = "put it back, or begin another soak (AT=another folder)"
        if name != self.name:
            raise PlanChangedError(f"this soak was begun with the plan {self.name}, not {name}: {todo}")
        for number, (before, now) in enumerate(zip(self.parts, parts, strict=False), 1):
            if before != now:
                was = f"part {number} of the plan was {_describe(before)} when this soak was begun"
                raise PlanChangedError(f"{was}, and is {_describe(now)}: {todo}")
        if len(parts) < len(self.parts):
            missing = ", ".join(one.name for one in self.parts[len(parts) :])
            raise PlanChangedError(f"the plan had more parts when this soak was begun, {missing}: {todo}")
        return self.model_copy(update={"parts": tuple(parts)})


def _describe(part: Part) -> str:
    return f"{part.name} ({' '.join(part.command[1:])}, {part.stack})"
