"""Progress lines."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest

from infra.console import Console, Durations, wants_colour


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "env", "expected"),
    [
        (_Terminal(), {"TERM": "xterm"}, True),
        (_Terminal(), {"NO_COLOR": "1"}, False),
        (_Terminal(), {"CI": "true"}, False),
        (_Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(stream: io.StringIO, env: dict[str, str], expected: bool) -> None:
    assert wants_colour(stream, env) is expected


def _wait_until_said(out: io.StringIO, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in out.getvalue():
        assert time.monotonic() < deadline, out.getvalue()
        time.sleep(0.005)


def test_a_step_is_timed_and_the_next_run_says_how_long_it_took(tmp_path: Path) -> None:
    durations = Durations(tmp_path / "cache" / "durations.json")
    first, second = io.StringIO(), io.StringIO()
    with Console(durations, first, patience_s=0.01).step("build", expected_s=240):
        _wait_until_said(first, "… build (about 240 s the first time)\n")
    assert re.fullmatch(r"✓ build \d+\.\d s", first.getvalue().splitlines()[1])
    assert durations.last("build") is not None
    durations.record("build", 41.2)
    with Console(durations, second, patience_s=0.01).step("build", expected_s=240):
        _wait_until_said(second, "… build (took 41 s last time)\n")


def test_a_step_that_found_everything_ready_is_one_line_and_not_remembered(tmp_path: Path) -> None:
    durations = Durations(tmp_path / "durations.json")
    durations.record("build", 41.2)
    out = io.StringIO()
    with Console(durations, out, patience_s=60).step("build", expected_s=240):
        pass
    assert re.fullmatch(r"✓ build \d+\.\d s\n", out.getvalue())
    assert durations.last("build") == 41.2


def test_a_failed_step_is_marked_and_not_remembered(tmp_path: Path) -> None:
    durations = Durations(tmp_path / "durations.json")
    out = io.StringIO()
    with pytest.raises(ValueError, match="broken"), Console(durations, out).step("build"):
        raise ValueError("broken")
    assert out.getvalue().startswith("✗ build")
    assert durations.last("build") is None


def test_a_long_step_shows_that_it_lives() -> None:
    out = io.StringIO()
    with Console(None, out, heartbeat_s=0.01).step("build"):
        _wait_until_said(out, "… build 0 s so far\n")


def test_a_spoilt_memory_of_durations_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "durations.json"
    for content in ("{", "[1]", '{"build": "soon"}'):
        path.write_text(content)
        assert Durations(path).last("build") is None
    Durations(path).record("build", 2.5)
    assert Durations(path).last("build") == 2.5
