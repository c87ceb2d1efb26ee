"""`make run`: a declared pipeline, and all that it needs as processes of this machine, until Ctrl-C; then on again."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from infra import templating
from infra.console import Console
from infra.embedded.job import Declared, Job, RunError
from infra.embedded.object_store import ObjectStore
from infra.embedded.postgres import PostgresServer
from infra.embedded.process import Child, wait_for
from infra.embedded.run_state import RunState
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack, Endpoints, Kept
from infra.embedded.supervised import Supervised
from infra.toolchain.postgres import HOW, find_postgres, read_version
from infra.toolchain.prepare import CHECKOUT, Toolchain
from infra.versions import KAFKA_BROKER, MINIO

TEMPLATES = Path(__file__).parents[1] / "templates" / "run"
PROGRAMS = ("send", "read", "kill")
PARTITIONS = 4
CREATE_S, DRIVER_S, STOP_S, POLL_S = 120.0, 120.0, 30.0, 0.5


@dataclass
class Run:
    """One run; whichever way `go` ends, no process is left. Logs stay in `folder`, data in `state`.

    Attributes:
        state: what the run before has left, and the next goes on with.
        fresh: begin anew instead.
        reload: reads the job again, for a driver that is started again; None: it stays as it is.

    """

    job: Job
    toolchain: Toolchain
    console: Console
    folder: Path
    state: RunState
    class_archive: Path | None = None
    reload: Callable[[], Job] | None = None
    fresh: bool = False

    @classmethod
    def here(
        cls,
        job: Job,
        toolchain: Toolchain,
        console: Console,
        state: RunState,
        *,
        class_archive: Path | None = None,
        reload: Callable[[], Job] | None = None,
        fresh: bool = False,
    ) -> Run:
        """In a folder of its own below runs/, which `runs/run-<pipeline>` leads to."""
        link = CHECKOUT / "runs" / f"run-{job.name}"
        folder = link.with_name(f"{link.name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
        folder.mkdir(parents=True)
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        return cls(job, toolchain, console, folder, state, class_archive, reload, fresh)

    def go(self) -> None:
        """Start everything, and return when it was interrupted and has ended.

        Raises:
            RunError: the declaration cannot be imported, or asks for what is not here.
            RunStateError: the data of the run before cannot be gone on with.
            ServerError: a server did not start, or the first driver did not.

        """
        try:
            self._go()
        except KeyboardInterrupt:
            logs = self.folder / "logs"
            self.console.say(
                f"✓ {self.job.name} has ended; logs are kept in {logs}\n"
                f"  `make run` goes on where it was, with its data in {self.state.folder}; with FRESH=1 it begins anew"
            )

    def _go(self) -> None:
        declared = Declared.of(self.job, self.toolchain)
        with ExitStack() as held:
            environment = self.job.environment(self.toolchain)
            programs = self._find_programs() if declared.tables or declared.lake else None
            goes_on = self.state.open(self._versions(programs), fresh=self.fresh, say=self.console.say)
            database = self._database(held, environment, programs) if programs else {}
            mark = self.state.mark
            stack = held.enter_context(
                EmbeddedStack(
                    self.folder,
                    self.toolchain,
                    self.console.say,
                    class_archive=self.class_archive,
                    kept=Kept(self.state.folder, mark.access_key, mark.secret_key),
                )
            )
            if goes_on:
                self._say_where(stack.object_store)
            place = {**_place(stack.endpoints), **database}
            home = SparkHome(self.toolchain, stack.endpoints, self.folder, self.class_archive)
            events = self.folder / "work" / "events.jsonl"
            events.touch()
            for name in PROGRAMS:
                held.callback((self.folder / name).unlink, missing_ok=True)
            begin = partial(self._begin, home, place, environment, events)
            driver = Supervised(begin(declared), lambda: begin(self._renew(environment)), self.console.say)
            held.callback(driver.stop, STOP_S)
            with self.console.step("driver"):
                wait_for("the driver", DRIVER_S, lambda: events.stat().st_size > 0, driver.child)
            self._say({**self.job.settings, **place}, declared)
            self._follow(driver, events)

    def _begin(
        self,
        home: SparkHome,
        place: Mapping[str, str],
        environment: Mapping[str, str],
        events: Path,
        declared: Declared,
    ) -> Child:
        """Start a driver, with the topics and tables that its declaration asks for by now."""
        settings = {**self.job.settings, **place}
        path = self.folder / "settings.json"
        path.write_text(json.dumps(settings, indent=1) + "\n")
        with self.console.step("bucket, topics and tables"):
            self._create(home, path, environment)
        watched = {**environment, "EFFECTIVELY_ONCE_EVENTS": str(events)}
        driver = home.start("driver", "effectively_once", ["run", str(path)], watched)
        values = {
            "settings": settings,
            "kafka": declared.kafka,
            "files": declared.files,
            "tables": declared.tables,
            "lake": declared.lake,
            "environment": _credentials(home.endpoints, environment),
            "path": environment["PYTHONPATH"].split(":"),
            "driver": _process(driver),
            "checkout": str(CHECKOUT),
        }
        self._programs(values)
        return driver

    def _renew(self, environment: dict[str, str]) -> Declared:
        """Read the job again, as its author may have mended it. Raises UserError where it cannot be."""
        if self.reload is not None:
            self.job = self.reload()
        environment |= self.job.environment(self.toolchain)
        return Declared.of(self.job, self.toolchain)

    def _find_programs(self) -> Path:
        programs = find_postgres()
        if programs is None:
            raise RunError(f"{self.job.name} has tables. {HOW}")
        return programs

    def _versions(self, programs: Path | None) -> dict[str, str]:
        """Return what writes to the data: servers whose version matters, and the others for whoever looks."""
        found = {"kafka": KAFKA_BROKER, "object store": MINIO, "library": self.toolchain.wheel.sha256}
        return found if programs is None else {**found, "postgres": read_version(programs)}

    def _say_where(self, store: ObjectStore) -> None:
        """Say with which epoch it goes on: the one after the last that is recorded, declared already or not."""
        body = store.read(f"{self.job.name}/head.json")
        where = "before its first epoch" if body is None else f"with epoch {json.loads(body)['last_recorded'] + 1}"
        self.console.say(f"✓ {self.job.name} goes on {where}: {self.state.folder} (FRESH=1 begins anew)")

    def _database(self, held: ExitStack, environment: dict[str, str], programs: Path) -> dict[str, str]:
        log = self.folder / "logs" / "postgres.log"
        server = PostgresServer(self.state.find_database(), log, programs, password=self.state.mark.password)
        held.callback(server.stop)
        with self.console.step("PostgreSQL"):
            server.start()
        environment |= {"PGUSER": server.user, "PGPASSWORD": server.password}
        return {"database": server.url}

    def _create(self, home: SparkHome, settings: Path, environment: Mapping[str, str]) -> None:
        words = ["create", str(settings), "--source-partitions", str(PARTITIONS)]
        child = home.start("create", "effectively_once", words, environment)
        try:
            if not child.wait(CREATE_S) or child.status():
                raise RunError(child.post_mortem())
        finally:
            child.stop()

    def _programs(self, values: Mapping[str, Any]) -> None:
        """Write `send`, `read` and `kill`, for this run and, as they know its credentials, for this user alone."""
        for name in PROGRAMS:
            path = self.folder / name
            path.touch(0o700)
            path.write_text(templating.render(TEMPLATES / f"{name}.py.j2", **values, python=sys.executable))

    def _say(self, settings: Mapping[str, Any], declared: Declared) -> None:
        short = self.folder.with_name(f"run-{self.job.name}")
        sinks = [*declared.kafka, *declared.files, *declared.tables, *declared.lake]
        self.console.say(
            f"✓ {self.job.name} runs; it reads the topic {settings['topic']} at {settings['kafka_bootstrap']}\n"
            f"  {short}/send < FILE     sends a record a line\n"
            f"  {short}/read SINK       shows what is published: {', '.join(sinks)}\n"
            f"  {short}/kill            kills an executor\n"
            f"  {short}/logs            logs, {short}/settings.json addresses\n"
            "  a driver that ends with an error is started again; Ctrl-C ends it, and the next run goes on from there"
        )

    def _follow(self, driver: Supervised, events: Path) -> None:
        with events.open() as lines:
            while True:
                ended = driver.wait(POLL_S)
                for line in lines:
                    if self._tell(json.loads(line)):
                        driver.make_progress()
                if ended:
                    driver.start_again()

    def _tell(self, event: Mapping[str, Any]) -> bool:
        """Say what an epoch published; return whether it was one."""
        if (event["event"], event.get("state")) == ("epoch", "published"):
            names = ("in", "accepted", "duplicate", "late", "malformed")
            counts = ", ".join(f"{event[name]} {name}" for name in names)
            counts += f", of {event['records']} records" if "records" in event else ""
            counts += "".join(
                f", {number} left out for {reason}" for reason, number in event.get("filtered", {}).items()
            )
            again = ", repeated" if event["repeat"] else ""
            self.console.say(f"  epoch {event['epoch']}: {counts}, {event['ms']['total']} ms{again}")
            return True
        return False


def _credentials(endpoints: Endpoints, environment: Mapping[str, str]) -> dict[str, str]:
    login = {name: environment[name] for name in ("PGUSER", "PGPASSWORD") if name in environment}
    return endpoints.credentials | login


def _process(child: Child) -> dict[str, int]:
    """Return its number, and when it was started, in clock ticks since boot."""
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return {"pid": child.pid, "started": int(fields[19])}


def _place(endpoints: Endpoints) -> dict[str, str]:
    return {
        "kafka_bootstrap": endpoints.kafka_bootstrap,
        "s3_endpoint": endpoints.s3_endpoint,
        "s3_bucket": endpoints.s3_bucket,
    }
