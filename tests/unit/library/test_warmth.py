"""What keeps executors warm runs beside the wait, goes on where it failed, and ends with it."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.driver import warmth

WAIT_S = 10.0


def test_it_goes_on_when_a_job_failed_and_ends_when_the_wait_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmth, "EVERY_S", 0.01)
    tries, over, plans = iter(range(3)), threading.Event(), list[str]()

    def warm(_: Any) -> None:
        if next(tries, None) is not None:
            raise RuntimeError("an executor was lost")

    def plan() -> Any:
        plans.append("planned")
        over.set()
        return SimpleNamespace(mapInArrow=lambda *_: SimpleNamespace(collect=list))

    monkeypatch.setattr(warmth, "warm", warm)
    spark: Any = None
    warmth.start(spark, plan, over)
    (thread,) = (one for one in threading.enumerate() if one.name == "warmth")
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert plans == ["planned"]
