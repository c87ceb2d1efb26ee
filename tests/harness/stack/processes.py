"""What runs on a stack: drivers, each with its settings, what they announce, and what holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict

from tests.harness.adapters.cpu import Cpu
from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Holding
from tests.harness.run_directory import RunDirectory


class Supervised(Protocol):
    """The drivers of one pipeline, one after the other: a dead one is followed by the next."""

    @property
    def driver(self) -> int | str | None:
        """The newest, as its events name it."""

    def start(self, name: str, settings: Path, *arguments: str) -> None:
        """Start the first one."""

    def alive(self) -> str | None:
        """None while one runs or the next is about to, else why there is none."""

    def stop(self) -> int | None:
        """Stop in order, and start no other."""

    def end(self) -> None:
        """End whatever is left. Safe to repeat."""

    def executors(self) -> list[str]:
        """Executors alive."""

    def kill_executor(self, event: Mapping[str, Any]) -> Struck:
        """SIGKILL the executor that announced `event`, or is held there; raises NoProcessError."""

    def kill_driver(self) -> Struck:
        """SIGKILL the driver alone; raises NoProcessError."""


@dataclass(frozen=True)
class Role:
    """One driver, and what it is started with.

    Attributes:
        settings: a pipeline's settings (effectively_once.pipeline.settings.PipelineSettings), but for addresses.
        own: further ones, of the job alone.
        name: of the driver's log, and in the name of its pods where there are several.
    """

    settings: Mapping[str, Any]
    own: Mapping[str, Any]
    name: str = "driver"


@dataclass(frozen=True)
class Processes:
    """Drivers that are ready to start on a stack, with what belongs to them.

    Attributes:
        drivers: one for each role.
        files: their settings files.
        roles: theirs, in the same order.
        watch: what all of them announce.
        hold: holds any of their processes.
        cpu: measures what they use, once started; None where that is not to be had.
    """

    drivers: tuple[Supervised, ...]
    files: tuple[Path, ...]
    roles: tuple[Role, ...]
    watch: Watch
    hold: Holding
    cpu: Cpu | None

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow what they announce, and have none of them left afterwards."""
        with ExitStack() as held:
            held.callback(self.watch.stop)
            self.watch.start()
            for one in self.drivers:
                held.callback(one.end)
            if self.cpu is not None:
                held.enter_context(self.cpu)
            yield

    def start(self) -> None:
        """Start all of them; they need not have begun on return."""
        for one, role, file in zip(self.drivers, self.roles, self.files, strict=True):
            one.start(role.name, file)

    def cpu_s(self) -> float | None:
        """Processor time so far, in seconds."""
        return None if self.cpu is None else self.cpu.seconds()


class Asked(TypedDict, total=False):
    """What drivers are to have beside what the stack gives.

    Attributes:
        environment: of drivers and executors.
        files: modules of this checkout that theirs needs beside the wheel, as paths.
        executors: of each driver, a core each.
        memory_mib: heap of each executor; None: what the stack gives.
        chart: in pods, further values of the chart.
    """

    environment: Mapping[str, str]
    files: Sequence[str]
    executors: int
    memory_mib: int | None
    chart: Mapping[str, Any]


def write_settings(directory: RunDirectory, role: Role, settings: Mapping[str, Any]) -> Path:
    """Write the settings file of a role; where it is."""
    path = directory.path.absolute() / ("settings.json" if role.name == "driver" else f"settings-{role.name}.json")
    directory.write_json(path, settings)
    return path
