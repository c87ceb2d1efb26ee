"""Asks a driver of this machine to have Spark end a task or a stage (tests.harness.with_requests)."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.harness.with_requests import ANSWER, ASKED, VARIABLE

POLL_S = 0.01


class SparkRequests:
    """A folder that drivers are told of by their environment; one request at a time."""

    def __init__(self, folder: Path) -> None:
        """The folder is made."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._numbers: Iterator[int] = itertools.count(1)
        self._number = 0

    @property
    def env(self) -> Mapping[str, str]:
        """What the environment of a driver needs."""
        return {VARIABLE: str(self._folder)}

    def ask(self, kind: str, draw: int, within_s: float) -> dict[str, Any] | None:
        """Ask, and wait for the first answer; None when there is none in time, and the request is taken back.

        Args:
            kind: `task_kill` or `stage_cancel`.
            draw: decides which of several.
            within_s: how long to wait.
        """
        self._number = next(self._numbers)
        draft = self._folder / "draft"
        draft.write_text(json.dumps({"number": self._number, "kind": kind, "draw": draw}))
        draft.rename(self._folder / ASKED)
        deadline = time.monotonic() + within_s
        while (found := self.answer()) is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if found is None:
            (self._folder / ASKED).unlink(missing_ok=True)
        return found

    def answer(self) -> dict[str, Any] | None:
        """The answer to the last request as it is now; None when there is none."""
        try:
            told: dict[str, Any] = json.loads((self._folder / ANSWER).read_text())
        except FileNotFoundError:
            return None
        return told if told["number"] == self._number else None
