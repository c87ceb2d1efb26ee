"""What an injector invents is caught by what others tell: kernel or Kubernetes, and the pipeline itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.witness import UNWITNESSED
from tests.harness.judge import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricate import Row
from tests.unit.harness.tamper import change_lines


def of_faults(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["event"] == "fault"]


def never_existed(rows: list[Row]) -> None:
    of_faults(rows)[0]["process_before"] = "31999@1749999999.00"


def successor_never_existed(rows: list[Row]) -> None:
    of_faults(rows)[0]["process_after"] = "31999@1750000009.00"


def began_before(rows: list[Row]) -> None:
    """The successor is a process that really was there, and long before."""
    first, second = of_faults(rows)
    first["process_after"] = second["process_before"]


def full_moon(rows: list[Row]) -> None:
    of_faults(rows)[0]["phase"] = "full_moon"


def step_of_another_epoch(rows: list[Row]) -> None:
    of_faults(rows)[0]["phase"] = "transaction_open:user_counts"


def told_twice(rows: list[Row]) -> None:
    """The second fault is the first one again, some moments later and by another name."""
    first, second = of_faults(rows)
    second.update(first, process_before="31999@1749999999.00", injected_at=first["injected_at"] + 1)


def told_twice_by_its_name(rows: list[Row]) -> None:
    first, second = of_faults(rows)
    second.update(first, injected_at=first["injected_at"] + 1)


def stretched(rows: list[Row]) -> None:
    """The struck epoch is told to have run from the begin to the end, so that no fault can miss it."""
    epoch = of_faults(rows)[0]["epoch"]
    mine = [row for row in rows if row["event"] == "epoch" and row["epoch"] == epoch]
    mine[0]["t"], mine[-1]["t"] = rows[0]["t"], rows[-1]["t"] + 60_000
    of_faults(rows)[0]["injected_at"] = rows[-1]["t"] + 10


def survived(rows: list[Row]) -> None:
    """It was never seen to end."""
    who = of_faults(rows)[0]["process_before"]
    rows[:] = [row for row in rows if not (row.get("process") == who and row["state"] == "gone")]


def gone_before(rows: list[Row]) -> None:
    who = of_faults(rows)[0]["process_before"]
    gone = next(row for row in rows if row.get("process") == who and row["state"] == "gone")
    gone["t"] = of_faults(rows)[0]["injected_at"] - 500


def ended_by_itself(rows: list[Row]) -> None:
    who = of_faults(rows)[0]["process_before"]
    next(row for row in rows if row.get("process") == who and row["state"] == "gone")["code"] = 0


def another_role(rows: list[Row]) -> None:
    who = of_faults(rows)[0]["process_before"]
    for row in rows:
        if row.get("process") == who:
            row["role"] = "broker"


def nobody_looked(rows: list[Row]) -> None:
    rows[:] = [row for row in rows if row["event"] != "process"]


@pytest.mark.parametrize(
    ("invents", "why"),
    [
        (never_existed, "nobody but the injector saw 31999@"),
        (successor_never_existed, "nobody but the injector saw 31999@"),
        (began_before, "took no place: it began"),
        (full_moon, "had not come by 'full_moon'"),
        (step_of_another_epoch, "had not come by 'transaction_open:user_counts'"),
        (told_twice, ""),
        (told_twice_by_its_name, "was killed before"),
        (stretched, "is told to have taken"),
        (survived, "was not seen to end"),
        (gone_before, "500 ms before it is told to have been struck"),
        (ended_by_itself, "was not killed: it ended with exit code 0"),
        (another_role, "is no executor, but a broker"),
        (nobody_looked, UNWITNESSED),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_was_invented_is_unknown(run: Path, invents: Callable[[list[Row]], Any], why: str) -> None:
    assert judge(run, write=False).oracle("faults").verdict is Verdict.PASS
    change_lines(run / "history.jsonl", invents)
    found = judge(run, write=False).oracle("faults")
    assert found.verdict is Verdict.UNKNOWN
    assert any(why in one for one in found.evidence), found.evidence
