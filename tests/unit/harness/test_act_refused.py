"""A run whose drivers are refused ends early, and what readers see is collected all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.act import Act
from tests.harness.collector import USER_COUNTS
from tests.harness.run_directory import RunDirectory, read_lines


class Played(Act):
    """An act without servers; `told` is what was done, in order."""

    def __init__(self, run: Path, ends: str | None, *, refused: bool) -> None:
        self.told: list[str] = []
        self.ends, self.outputs = ends, USER_COUNTS
        self.directory, self.stop = RunDirectory(run), threading.Event()
        self.topic, self.pipeline, self.shards, self.partitions = "events", "p", 1, 1
        tell: Callable[[str], Callable[..., Any]] = lambda what: lambda *_, **__: self.told.append(what)  # noqa: E731
        self.topics: Any = SimpleNamespace(create=tell("topics"))
        self.watch = self.witness = SimpleNamespace(start=lambda: None, stop=lambda: None)  # type: ignore[assignment]
        self.reader: Any = SimpleNamespace(start=lambda: None, stop=lambda: None, finish=tell("read"), complete=True)
        self.subject: Any = SimpleNamespace(gateways=())
        self.services = None
        self.campaign: Any = SimpleNamespace(end=tell("faults undone"))
        self.drivers: Any = SimpleNamespace(end=tell("drivers ended"), refused=refused)
        self.console: Any = SimpleNamespace(step=lambda *_: nullcontext(), say=lambda *_: None)
        self.collector: Any = SimpleNamespace(collect=self._collect)
        self.open_transactions, self.beside = (lambda: []), tell("controls")
        self._sending, self._beside, self._send_error = None, None, None
        self._pool = ThreadPoolExecutor(1)

    def _sender(self, lines: Any, gateways: Any = None) -> Any:
        lines.write({"n": 0})

    def _main_act(self, sender: Any) -> None:
        if self.ends == "sending":
            self._sending = threading.Thread(target=self._send_on)
            self._sending.start()
            raise RuntimeError("the driver ended while records were sent")

    def _send_on(self) -> None:
        self.stop.wait(9)
        self.told.append("sent")

    def _epilogue(self, sender: Any) -> None:
        if self.ends == "epilogue":
            raise RuntimeError("the driver ended in the epilogue")

    def _collect(self, _: Any, stop: threading.Event) -> None:
        assert not stop.is_set()
        self.told.append(f"collected {len(list(read_lines(self.directory.sent_path)))}")


@pytest.mark.parametrize("ends", ["sending", "epilogue"])
def test_what_readers_see_is_collected_once_nobody_publishes_any_more(tmp_path: Path, ends: str) -> None:
    act = Played(tmp_path, ends, refused=True)
    with pytest.raises(RuntimeError, match="the driver ended"):
        act.go()
    # The controls run beside it.
    told = [one for one in act.told if one != "controls"]
    sent = ["sent"] if ends == "sending" else []
    over = ["faults undone", *sent, "drivers ended"]
    assert told == ["topics", *over, "collected 1", "read", "faults undone", "drivers ended"]


def test_a_run_that_comes_to_its_end_is_collected_and_one_that_broke_off_otherwise_is_not(tmp_path: Path) -> None:
    act = Played(tmp_path, "sending", refused=False)
    with pytest.raises(RuntimeError, match="the driver ended"):
        act.go()
    assert not any(one.startswith("collected") for one in act.told)
    act = Played(tmp_path, None, refused=False)
    act.go()
    assert act.told == ["topics", "controls", "collected 1", "read", "faults undone", "drivers ended"]


@pytest.mark.parametrize(
    ("alive", "error", "begins"),
    [(True, None, False), (False, RuntimeError("the fault stands"), False), (False, None, True)],
)
def test_what_is_played_beside_begins_early_once_every_fault_is_undone(
    tmp_path: Path, alive: bool, error: BaseException | None, begins: bool
) -> None:
    act = Played(tmp_path, None, refused=False)
    act.campaign = SimpleNamespace(is_alive=lambda: alive, error=error)
    assert act.struck_all is begins
