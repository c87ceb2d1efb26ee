"""A line of a history that its writer could not have written is complained about."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.checkers import lines

WHO = "7@1.00"
STEP = {"t": 2, "event": "step", "epoch": 0, "shard": 0, "sink": None, "step": "committed", "pid": 7, "attempt": 0}
SEEN = {"t": 2, "event": "process", "state": "seen", "process": WHO, "role": "executor"}
GONE = {"t": 5, "event": "process", "state": "gone", "process": WHO, "last": 4, "code": -9}
PUBLISHED = {"t": 6, "event": "epoch", "state": "published", "epoch": 0, "repeat": False}
DECLARED = {"t": 1, "event": "epoch", "state": "declared", "epoch": 0}
TRUE = [DECLARED, STEP, SEEN, GONE, PUBLISHED]


def test_what_writers_write_is_well() -> None:
    assert lines.find_misplaced(TRUE) == []
    pod = [{**one, "process": "p@u/c"} for one in (SEEN, GONE)]
    assert lines.find_misplaced([*pod, *pod]) == []


@pytest.mark.parametrize(
    ("line", "changes", "why"),
    [
        (STEP, {"epoch": 0.5}, "a step whose epoch is 0.5"),
        (STEP, {"shard": -1}, "a step whose shard is -1"),
        (STEP, {"attempt": "0"}, "a step whose attempt is '0'"),
        (STEP, {"pid": None}, "a step whose pid is None"),
        (STEP, {"sink": 7}, "of sink 7"),
        (STEP, {"step": ""}, "step ''"),
        (STEP, {"epoch": 3}, "epoch 3, which nobody declared"),
        (SEEN, {"state": "here"}, "that was 'here'"),
        (SEEN, {"role": "thief"}, "'thief'"),
        (GONE, {"process": "8@1.00"}, "8@1.00 is gone, and it was not there"),
        (GONE, {"last": 1}, "last seen at 1"),
        (GONE, {"last": 6}, "last seen at 6"),
        (GONE, {"code": "9"}, "exit code '9'"),
        (GONE, SEEN, "as new, and it was there"),
        (PUBLISHED, SEEN, "as new, and it was there"),
        (PUBLISHED, {"repeat": None}, "does not say whether epoch 0 was repeated"),
    ],
)
def test_what_nobody_writes_is_told(line: dict[str, Any], changes: dict[str, Any], why: str) -> None:
    found = lines.find_misplaced([{**one, **changes} if one is line else one for one in TRUE])
    assert any(why in one for one in found), found
