"""Tasks and stages that Spark ends by its own API while an epoch runs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

from tests.harness.adapters.drivers import Drivers, NoProcessError, Struck
from tests.harness.adapters.spark_requests import Requests
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing_arsenal import Makers
from tests.harness.schedule import PlannedFault
from tests.harness.stall_sorts import REQUESTS
from tests.harness.with_requests import AT, BY, ENDED, FAILED, KILLED, MISSED, SAYS

ANSWER_S = 10.0


class EndedBySpark(Fault):
    """Spark kills a task attempt that runs, or cancels a stage; another attempt, or a later stage, does its work.

    Args:
        requests: reach the driver.
        kind: `task_kill` or `stage_cancel`.
        drivers: whose pipeline it is: with its driver what became of a request is lost.
    """

    def __init__(self, requests: Requests, kind: str, drivers: Drivers) -> None:
        self._requests, self._kind, self._drivers = requests, kind, drivers
        self._draw = 0
        self._asked: int | str | None = None
        self._ended = ""

    def prepare(self, planned: PlannedFault) -> None:
        self._draw = random.Random(f"victim of {planned}").randrange(1_000)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._asked = self._drivers.driver
        answer = self._requests.ask(self._kind, self._draw, ANSWER_S)
        if answer is None or ENDED not in answer:
            why = "no answer" if answer is None else answer.get(MISSED)
            raise NoProcessError(f"the driver did not carry out {self._kind}: {why}")
        self._ended = self._name(answer[ENDED], answer)
        return [(self._ended, answer[AT])]

    def after(self) -> list[str]:
        """Who does the work again; the same where that is not to be known any more, which is a miss."""
        answer = self._requests.answer() or {}
        if SAYS not in answer:
            lost = MISSED in answer or self._drivers.driver != self._asked
            return [self._ended] if lost else []
        return [self._name(answer[BY], answer) if answer[BY] else self._ended]

    def landed(self) -> bool:
        """Whether Spark says that it was killed or failed, and that its work was begun again."""
        answer = self._requests.answer() or {}
        return answer.get(SAYS) in (KILLED, FAILED) and bool(answer.get(BY))

    def evidence(self) -> dict[str, Any]:
        says = (self._requests.answer() or {}).get(SAYS)
        return {"spark_says": says} if says else {}

    def _name(self, what: str, answer: Mapping[str, Any]) -> str:
        # Every driver numbers its tasks and stages anew.
        return f"{what}@driver-{answer['driver']}"


def request_makers(requests: Requests | None, drivers: Drivers) -> Makers:
    """Both sorts; none where the drivers take no requests."""
    if requests is None:
        return {}
    return {(one.kind, one.target): partial(EndedBySpark, requests, one.kind, drivers) for one in REQUESTS.values()}
