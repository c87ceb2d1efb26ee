"""CPU seconds of a family of processes, those that have ended included, between two moments."""

from __future__ import annotations

import os
import time

import pytest

from tests.bench.cpu import Spent, watch_cpu
from tests.bench.errors import BenchError

ONE, TWO, AGAIN = (7, 1.0), (8, 1.0), (7, 2.0)


def _looked() -> Spent:
    spent = Spent()
    spent.look(1_000, {"arm": [(ONE, 2.0)], "broker": [(TWO, 1.0)]})
    spent.look(2_000, {"arm": [(ONE, 4.0), (TWO, 1.0)], "broker": []})
    spent.look(3_000, {"arm": [(AGAIN, 0.5)], "broker": [(TWO, 3.0)]})
    return spent


def test_what_a_process_took_that_has_ended_still_counts_and_its_id_may_come_again() -> None:
    assert _looked().between(1_000, 3_000) == {"arm": 3.5, "broker": 2.0}


def test_between_two_looks_it_goes_on_evenly() -> None:
    assert _looked().between(1_500, 2_500) == {"arm": pytest.approx(1.75), "broker": pytest.approx(1.0)}


@pytest.mark.parametrize(("began", "ended"), [(999, 2_000), (1_000, 3_001)])
def test_moments_that_nobody_looked_at_have_no_time(began: int, ended: int) -> None:
    with pytest.raises(BenchError, match="not looked at from the warm-up to the end"):
        _looked().between(began, ended)


def test_this_process_takes_time_while_it_works() -> None:
    with watch_cpu({"arm": os.getpid(), "gone": 2**22 + 1}) as spent:
        began = time.time() * 1000
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        ended = time.time() * 1000
    found = spent.between(began, ended)
    assert 0.1 < found["arm"] < 3
    assert found["gone"] == 0
