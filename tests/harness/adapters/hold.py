"""Holds a process of the pipeline at a named point of the protocol (effectively_once.points), until it is let go."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from effectively_once.points import HELD, HOLD, RELEASE, VARIABLE

POLL_S = 0.002


class Holding(Protocol):
    """Holds one process at a time, wherever it runs."""

    def ask(self, point: str, **where: Any) -> None:
        """Have the next process held that comes by; texts are regular expressions, anything else is compared."""

    def held(self, within_s: float) -> dict[str, Any] | None:
        """Who is held, as the point tells it with `pid`; None when nobody is after so long."""

    def release(self) -> None:
        """Let go who is held, and hold nobody else. Safe to repeat."""


class Hold:
    """A folder that drivers are told of by their environment, and executors by inheritance; one hold at a time."""

    def __init__(self, folder: Path) -> None:
        """The folder is made."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    @property
    def env(self) -> Mapping[str, str]:
        """What the environment of a driver needs."""
        return {VARIABLE: str(self._folder)}

    def ask(self, point: str, **where: Any) -> None:
        """Have the next process held that comes by; texts are regular expressions, anything else is compared."""
        for name in (HOLD, HELD, RELEASE):
            (self._folder / name).unlink(missing_ok=True)
        draft = self._folder / "draft"
        draft.write_text(json.dumps({"point": point, **where}))
        draft.rename(self._folder / HOLD)

    def held(self, within_s: float) -> dict[str, Any] | None:
        """Who is held, as the point tells it with `pid`; None when nobody is after so long."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                told: dict[str, Any] = json.loads((self._folder / HELD).read_text())
            except FileNotFoundError:
                if time.monotonic() > deadline:
                    return None
                time.sleep(POLL_S)
            else:
                return told

    def release(self) -> None:
        """Let go who is held, and hold nobody else. Safe to repeat."""
        (self._folder / HOLD).unlink(missing_ok=True)
        (self._folder / RELEASE).touch()
        (self._folder / HELD).unlink(missing_ok=True)
