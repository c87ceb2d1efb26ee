"""The clock that drivers see: this machine's, and an offset that can be changed while they run (libfaketime)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from infra.embedded.process import Child
from infra.embedded.spark import SparkHome
from infra.toolchain.faketime import format_offset, preload

OF_EXECUTORS = {"spark.executorEnv.LD_PRELOAD": ""}
"""They are on other machines than their driver, as it were: what it preloads is not handed on to them."""


class DriverClock:
    """One clock for all drivers of a run, those that start while it is wrong too.

    Args:
        library: libfaketime (`infra.toolchain.faketime`).
        file: where the offset is written; its folder is made.
    """

    def __init__(self, library: Path, file: Path) -> None:
        """It is right."""
        self._library, self._file = library, file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.step(0)

    @property
    def env(self) -> dict[str, str]:
        """What a process has to be started with to go by this clock."""
        return preload(self._library, self._file)

    def step(self, seconds: int) -> None:
        """Let it be ahead of this machine's by so many seconds (behind, of a negative number), at once."""
        new = self._file.with_suffix(".new")
        new.write_text(format_offset(seconds))
        new.replace(self._file)

    def right(self) -> None:
        """Let it be this machine's again. Safe to repeat."""
        self.step(0)


@dataclass(frozen=True)
class ClockedHome(SparkHome):
    """A home whose drivers go by another clock, with the JVM that each of them starts; executors do not.

    Attributes:
        clock: of the drivers; None: that of this machine.
    """

    clock: DriverClock | None = None

    def start(self, name: str, module: str, arguments: list[str], env: Mapping[str, str] | None = None) -> Child:
        """Start a driver (see `SparkHome`)."""
        return super().start(name, module, arguments, {**(env or {}), **(self.clock.env if self.clock else {})})


def with_clock(home: SparkHome, clock: DriverClock | None) -> SparkHome:
    """The same home with drivers that go by `clock`; the home itself when there is none."""
    if clock is None:
        return home
    same: dict[str, Any] = {field.name: getattr(home, field.name) for field in fields(SparkHome)}
    return ClockedHome(**{**same, "conf": {**home.conf, **OF_EXECUTORS}}, clock=clock)
