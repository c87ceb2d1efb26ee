"""Asks a driver to have Spark end a task or a stage (tests.harness.with_requests)."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.harness.with_requests import ANSWER, ASKED, VARIABLE


class Requests(ABC):
    """One request at a time to the driver of a pipeline, wherever it runs."""

    poll_s: ClassVar[float]
    """Between two looks for an answer."""
    _number = 0

    def ask(self, kind: str, draw: int, within_s: float) -> dict[str, Any] | None:
        """Ask, and wait for the first answer; None when there is none in time, and the request is taken back.

        Args:
            kind: `task_kill` or `stage_cancel`.
            draw: decides which of several.
            within_s: how long to wait.

        Raises:
            NoProcessError: there is no driver that could be asked.
        """
        self._number += 1
        self._send(json.dumps({"number": self._number, "kind": kind, "draw": draw}))
        deadline = time.monotonic() + within_s
        while (found := self.answer()) is None and time.monotonic() < deadline:
            time.sleep(self.poll_s)
        if found is None:
            self._take_back()
        return found

    def answer(self) -> dict[str, Any] | None:
        """The answer to the last request as it is now; None when there is none. `driver` names who answers."""
        found = self._read()
        return found if found is not None and found["number"] == self._number else None

    @abstractmethod
    def _send(self, request: str) -> None:
        """Put a request where the driver looks for it. Raises NoProcessError."""

    @abstractmethod
    def _read(self) -> dict[str, Any] | None:
        """Whatever answer there is, be it to an earlier request."""

    @abstractmethod
    def _take_back(self) -> None:
        """Remove a request that no driver has taken."""


class SparkRequests(Requests):
    """Requests to drivers of this machine, which their environment tells of a folder."""

    poll_s = 0.01

    def __init__(self, folder: Path) -> None:
        """The folder is made."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    @property
    def env(self) -> Mapping[str, str]:
        """What the environment of a driver needs."""
        return {VARIABLE: str(self._folder)}

    def _send(self, request: str) -> None:
        draft = self._folder / "draft"
        draft.write_text(request)
        draft.rename(self._folder / ASKED)

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self._folder / ANSWER).read_text())
        except FileNotFoundError:
            return None
        return found

    def _take_back(self) -> None:
        (self._folder / ASKED).unlink(missing_ok=True)
