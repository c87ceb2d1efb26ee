"""Whether a second judge, which shares no code with this one, comes to the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.harness.checkers.case import refute
from tests.harness.results import Answer, Oracle, Output, Verdict

NAME, NUMBER = "second judge", 0
Ask = Callable[[], Answer]
"""Asks it of the run that is judged; raises where it cannot answer."""
NUMBERS = ("expected", "observed", "missing", "duplicated", "phantom", "corrupted")


def judge(ask: Ask, outputs: Mapping[str, Output], lost: int = 0) -> Oracle:
    """Take no number for granted that both do not come to, and no pass that the other one fails.

    Args:
        ask: the second judge.
        outputs: what the first one found of each sink.
        lost: how many records it found in offsets that the chain gave up.
    """
    answer = ask()
    found = [
        f"{sink}: {name} is {getattr(outputs.get(sink), name, None)} here and {getattr(other, name)} there"
        for sink, other in answer.sinks.items()
        for name in NUMBERS
        if getattr(outputs.get(sink), name, None) != getattr(other, name)
    ]
    found += [f"{lost} records were given up here and {answer.lost} there"] if answer.lost != lost else []
    found += [f"{sink} was judged here alone" for sink in outputs if sink not in answer.sinks]
    exact = all(one.exact for one in outputs.values())
    if answer.verdict is Verdict.UNKNOWN or (answer.verdict is Verdict.FAIL and exact):
        found += [f"it says {answer.verdict}: {reason}" for reason in answer.reasons]
    if found:
        says = f"both judges do not come to the same, first: {found[0]}"
        return refute(NAME, NUMBER, says, found, verdict=Verdict.UNKNOWN)
    says = f"it comes to the same numbers of {len(answer.sinks)} sinks, and to {answer.verdict}"
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
