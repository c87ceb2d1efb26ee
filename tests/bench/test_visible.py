"""A window is visible when its last result is, and counts are of what was seen."""

from __future__ import annotations

import json

from tests.bench.visible import Visible


def result(user: str, start: int, count: int) -> bytes:
    return json.dumps({"user": user, "window_start_ms": start, "count": count}).encode()


def test_a_window_is_visible_when_its_last_result_is() -> None:
    visible = Visible()
    for line, t_ms in ((result("a", 0, 2), 10.0), (result("b", 60, 1), 20.0), (result("b", 0, 3), 30.0)):
        visible.see(line, t_ms)
    assert visible.at_ms == {0: 30.0, 60: 20.0}
    assert visible.counted() == {0: 5, 60: 1}
