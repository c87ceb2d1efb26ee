"""`make logs`: what several pods say, as one stream with a prefix per pod."""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TextIO

from infra.cluster.access import Access
from infra.cluster.api import ApiError, Reader, UnreachableError
from infra.cluster.platform import AccessError
from infra.console import wants_colour
from infra.operate.facts import log_path, pods_of
from infra.operate.objects import EXECUTOR_ID, NAME, Pod

COMPONENTS = ("kafka", "minio", "postgres", "spark-operator", "history-server", "monitoring")
TAIL = 200
LOOK_S = 2.0
END_S = 5.0
COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ?(.*)$", re.DOTALL)

Select = Callable[[], list[Pod]]


@dataclass(frozen=True)
class Source:
    """One run of one container: a restart is another one."""

    pod: str
    container: str
    run: str
    path: str
    prefix: str


@dataclass(frozen=True)
class Line:
    """A line of a log; `stamp` orders lines of all pods, `said` is what the API calls that time."""

    source: Source
    stamp: str
    said: str
    text: str


def follow_logs(
    access: Access,
    out: TextIO,
    *,
    pipeline: str | None = None,
    component: str | None = None,
    follow: bool = True,
    tail: int = TAIL,
    env: Mapping[str, str] | None = None,
) -> int:
    """Print the last `tail` lines of every pod, merged by time, then what comes, until Ctrl-C; exit code 0.

    Args:
        access: the deployed stack.
        out: where to; coloured when it is a terminal.
        pipeline: driver and executors of this one; without it and `component`, of all.
        component: one of COMPONENTS instead.
        follow: False prints what is there and returns; exit code 1 when no pod is there.
        tail: lines per pod at first.
        env: NO_COLOR and CI are looked up in it; this process's unless given.

    Raises:
        AccessError: there is no such pipeline or component.
        ApiError, UnreachableError: the pods cannot be listed.
    """
    select = selection(access, pipeline, component)
    colour = wants_colour(out, os.environ if env is None else env)
    return Merged(access.api, select, Printer(out, colour=colour)).run(tail, follow=follow)


def selection(access: Access, pipeline: str | None, component: str | None) -> Select:
    """How the pods are found, anew each time. Raises AccessError for a name that does not exist."""
    platform, names = access.platform, access.platform.namespaces
    if component is not None:
        if component not in COMPONENTS:
            raise AccessError(f"there is no component {component!r}; there is: {', '.join(COMPONENTS)}")
        spaces = [one for one in names.ours if one != names.pipelines] or list(names.ours)
        return lambda: [pod for one in spaces for pod in pods_of(access.api, one, f"{NAME}={component}")]
    # Kubernetes allows no underscore, so an object may have another name than its pipeline; either is understood.
    wanted = {one.name for name, one in platform.pipelines.items() if pipeline in (None, name, one.name)}
    if pipeline is not None and not wanted:
        there = ", ".join(sorted(platform.pipelines)) or "none"
        raise AccessError(f"there is no pipeline {pipeline!r}; there is: {there}")
    return lambda: [pod for pod in pods_of(access.api, names.pipelines) if pod.application in wanted]


def sources(pods: Iterable[Pod], *, running: bool) -> list[Source]:
    """The containers that have a log; only those that run when `running`."""
    pods = list(pods)
    several = len({pod.application for pod in pods if pod.application}) > 1
    found = []
    for pod in pods:
        status = pod.status
        for one in (*status.init_container_statuses, *status.container_statuses):
            if not (one.state.running or (one.state.terminated and not running)):
                continue
            prefix = _prefix(pod, several=several)
            if len(status.container_statuses) > 1 or one in status.init_container_statuses:
                prefix += f"/{one.name}"
            found.append(Source(pod.metadata.uid, one.name, one.container_id, log_path(pod), prefix))
    return found


def parse(source: Source, line: str) -> Line:
    """Split the time off that the API puts in front; it writes no trailing zeros, so the fraction is filled up."""
    found = _STAMP.match(line)
    if found is None:
        return Line(source, "", "", line)
    seconds, fraction, zone, text = found.groups()
    return Line(source, f"{seconds}.{fraction or '':0<9}", f"{seconds}{f'.{fraction}' if fraction else ''}{zone}", text)


def _prefix(pod: Pod, *, several: bool) -> str:
    name = pod.metadata.name
    if pod.role == "driver":
        name = "driver"
    elif pod.role == "executor" and EXECUTOR_ID in pod.metadata.labels:
        name = f"exec-{pod.metadata.labels[EXECUTOR_ID]}"
    return f"{pod.application}/{name}" if several and pod.role else name


class Printer:
    """Writes lines with their prefix, one colour a prefix."""

    def __init__(self, out: TextIO, *, colour: bool) -> None:
        self._out, self._colour = out, colour
        self._colours: dict[str, str] = {}

    def line(self, prefix: str, text: str) -> None:
        """One line."""
        shown = f"{prefix} |"
        if self._colour:
            number = self._colours.setdefault(prefix, COLOURS[len(self._colours) % len(COLOURS)])
            shown = f"\x1b[{number}m{shown}\x1b[0m"
        self._out.write(f"{shown} {text}\n")

    def flush(self) -> None:
        """Let it be seen."""
        self._out.flush()


class Merged:
    """The logs of the pods that `select` finds, new ones included."""

    def __init__(self, api: Reader, select: Select, printer: Printer, look_s: float = LOOK_S) -> None:
        """`look_s` is how often new pods are looked for."""
        self._api, self._select, self._printer, self._look_s = api, select, printer, look_s
        self._lines: queue.Queue[Line | None] = queue.Queue(maxsize=10_000)
        self._last: dict[Source, Line] = {}
        self._readers: dict[Source, _Reading] = {}

    def run(self, tail: int, *, follow: bool) -> int:
        """Print what is there, then what comes. Ctrl-C ends it in order."""
        try:
            found = sources(self._select(), running=False)
            self._past(found, tail)
            if not found:
                waits = "; waiting for one (Ctrl-C ends)" if follow else ""
                self._printer.line("…", f"no pod has started yet{waits}; `make status` says why")
                self._printer.flush()
            if not follow:
                return 0 if found else 1
            self._ahead()
        except KeyboardInterrupt:
            return 0
        finally:
            for one in self._readers.values():
                one.stop()

    def _past(self, found: list[Source], tail: int) -> None:
        lines: list[Line] = []
        for source in found:
            query = {"container": source.container, "timestamps": "true", "tailLines": str(tail)}
            try:
                text = self._api.text(source.path, **query)
            except ApiError as error:
                self._printer.line(source.prefix, f"(no log: {error.answer})")
                continue
            own = [parse(source, line) for line in text.splitlines()]
            lines += own
            if own:
                self._last[source] = own[-1]
        for line in sorted(lines, key=lambda one: one.stamp):  # stable: lines of one pod keep their order
            self._printer.line(line.source.prefix, line.text)
        self._printer.flush()

    def _ahead(self) -> NoReturn:
        while True:
            for source in sources(self._select(), running=True):
                there = self._readers.get(source)
                if there is None or there.ended:
                    self._readers[source] = _Reading(self._api, source, self._last.get(source), self._lines)
            self._print_for(self._look_s)

    def _print_for(self, seconds: float) -> None:
        """Print what comes until nothing did for so long, or a log ended: then the pods may have changed."""
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                return
            if line is None:
                self._printer.flush()
                return
            self._last[line.source] = line
            self._printer.line(line.source.prefix, line.text)
            if self._lines.empty():
                self._printer.flush()


class _Reading:
    """A thread that follows one container."""

    def __init__(self, api: Reader, source: Source, last: Line | None, lines: queue.Queue[Line | None]) -> None:
        self._api, self._source, self._last, self._out = api, source, last, lines
        self._stop = threading.Event()
        self._opened = threading.Lock()
        self._close: Callable[[], None] = lambda: None
        self.ended = False
        self._thread = threading.Thread(target=self._run, name=f"log of {source.prefix}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        with self._opened:
            self._close()
        self._thread.join(END_S)

    def _run(self) -> None:
        try:
            self._read()
        except (ApiError, UnreachableError):
            pass  # the pod went; whether the cluster did shows when the pods are listed
        finally:
            self.ended = True
            self._put(None)

    def _read(self) -> None:
        query = {"container": self._source.container, "follow": "true", "timestamps": "true"}
        if self._last and self._last.said:
            query["sinceTime"] = self._last.said
        lines = self._api.follow(self._source.path, **query)
        with self._opened:
            self._close = lines.close
        if self._stop.is_set():
            lines.close()
        for text in lines:
            line = parse(self._source, text)
            # `sinceTime` is inclusive.
            if self._last and line.stamp and line.stamp <= self._last.stamp:
                continue
            if not self._put(line):
                return

    def _put(self, line: Line | None) -> bool:
        """Hand a line over, unless it all ends meanwhile."""
        while not self._stop.is_set():
            try:
                self._out.put(line, timeout=0.5)
            except queue.Full:
                continue
            return True
        return False
