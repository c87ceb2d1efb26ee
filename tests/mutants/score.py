"""How many mutants of a module are killed, of those that change anything."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from tests.mutants.explained import Explanation, wrong
from tests.mutants.outcome import Mutant, Outcome

LEAST = 0.9
"""Share of the mutants that has to be killed, in each module."""


class Score(BaseModel):
    """What the tests of a module are worth.

    Attributes:
        made: mutants that were played.
        by_time: how many of the killed met their limit of time.
        spared: mutants of the wording of errors, which are not made.
        survivors: neither killed nor explained.
        wrong: explanations that do not hold.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    made: int
    killed: int
    by_time: int
    equivalent: int
    spared: int
    seconds: float
    survivors: tuple[Mutant, ...]
    wrong: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of the mutants that change anything, those that were killed."""
        different = self.made - self.equivalent
        return self.killed / different if different else 1.0

    @property
    def reached(self) -> bool:
        """Whether it is enough."""
        return self.share >= LEAST and not self.wrong


def scored(outcome: Outcome, explanations: Sequence[Explanation]) -> Score:
    """Return the score of a module by what came of it, and by the explanations of all."""
    own = [one for one in explanations if one.module == outcome.module]
    lost = [mutant for mutant in outcome.mutants if not mutant.killed]
    explained = [mutant for mutant in lost if mutant.end == "survived" and any(one.fits(mutant) for one in own)]
    return Score(
        module=outcome.module,
        made=len(outcome.mutants),
        killed=len(outcome.mutants) - len(lost),
        by_time=sum(mutant.end == "time" for mutant in outcome.mutants),
        equivalent=len(explained),
        spared=outcome.spared,
        seconds=outcome.seconds,
        survivors=tuple(mutant for mutant in lost if mutant not in explained),
        wrong=tuple(wrong(own, outcome.mutants)),
    )
