"""The campaign on a pipeline that is not one of ours: its declaration, its records, the faults of the embedded stack.

`python -m tests.harness.own.pipeline --at ../clicks --input events.jsonl --key key --time event_time_ms` runs it and
exits with 0 pass, 1 fail, 2 unknown.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from effectively_once.settings import PipelineSettings
from infra.console import Console
from infra.embedded.class_archive import class_archive
from infra.embedded.guard import guarded, interrupted
from infra.embedded.job import ASK_S, Job, RunError
from infra.embedded.stack import EmbeddedStack
from infra.errors import UserError
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import CHECKOUT, Toolchain, default_console, prepare
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.transactions import open_transactions
from tests.harness.checkers.declared import Declaration
from tests.harness.checkers.declared_run import DECLARATION
from tests.harness.conditions import Conditions, add_stall_lengths
from tests.harness.faults.arsenal import TRANSACTION_TIMEOUT_S, EmbeddedArsenal
from tests.harness.history import History
from tests.harness.judge.verdict import show
from tests.harness.manifest import manifest_of
from tests.harness.mixture import (
    NoFaultError,
    asked_for,
    name_of,
    without_clock,
    without_cuts,
    without_requests,
    without_result_store,
    without_slow_disks,
)
from tests.harness.own.collector import OwnCollector
from tests.harness.own_act import PROGRAM, OwnAct, OwnHome, python_of
from tests.harness.own_plan import plan, subject_of
from tests.harness.place import Patience, Place
from tests.harness.play.recorded import run_recorded
from tests.harness.results import OWN_PIPELINE, Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import Strike
from tests.harness.schemas import SinkSchema
from tests.harness.spread import heartbeats
from tests.harness.stall_sorts import LENGTHS_S
from tests.harness.subject import Subject, from_file
from tests.harness.surroundings import linked, result_store
from tests.harness.workload.errors import InputError

FAULTS = "executor-kill*2,worker-kill,driver-kill,broker-kill,store-kill"
CLAIM = (
    "Every record of {input} is in the outputs of {job} as its own transform and declaration say, exactly once, "
    "whatever is killed or stopped: no sink misses, doubles, invents or alters a row."
)
_NAMED = re.compile(r"^[\w.]+Error: ")
PATIENCE = Patience(driver_s=180.0, replaced_s=120.0, take_over_s=120.0)
NO_CLOCK = "the clock of a pipeline of your own is not stepped: its driver runs without libfaketime"
NO_REQUESTS = "nobody asks Spark for the end of a task or stage there: your job's driver runs as it is"
NO_CUTS = "a pipeline of your own goes to its servers itself: no link between them can be cut"
NO_SLOW_DISKS = "no disk is slowed under a pipeline of your own"
SETTINGS = {"shards": 2}
"""Of a job whose settings file does not say."""


@dataclass
class OwnPipeline:
    """One campaign from start to verdict; whichever way `run` ends, every fault is undone and no process is left.

    Attributes:
        job: what is struck.
        said: what it declares (`asked`).
        toolchain: of the embedded stack.
        subject: what is sent.
        strikes: what is done, in any order.
        seed: draws when what is done.
        console: tells what is under way.
        checkout: where `runs/` is.
        class_archive: folder of shared class data of the JVMs.
        database: the folder of PostgreSQL's programs, for a pipeline that has tables.
        stalls_s: lengths of stalls.
        stop: set from outside to end early.
    """

    job: Job
    said: Mapping[str, Any]
    toolchain: Toolchain
    subject: Subject
    strikes: Sequence[Strike]
    seed: int
    console: Console
    checkout: Path = CHECKOUT
    class_archive: Path | None = None
    database: Path | None = None
    stalls_s: Sequence[float] = LENGTHS_S
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Results:
        """Run it all and judge it; a run that broke off is judged too, by what there is, and is never a pass.

        Raises:
            NoFaultError: a fault needs a step that the pipeline does not have; nothing was started.
            OSError: the run directory cannot be written to.
        """
        faults = plan(self.seed, self.strikes, self._shards, self.said, self.stalls_s)
        struck = ", ".join(name_of(one.strike) for one in faults)
        return run_recorded(
            self.checkout,
            self.seed,
            f"{self.subject.says}; {struck}",
            self.console,
            manifest=self._manifest,
            play=self._play,
        )

    def _play(self, directory: RunDirectory) -> None:
        """Run the part that needs servers, and write its evidence."""
        tools, job, said = self.toolchain, self.job, self.said
        stack = EmbeddedStack(directory.path, tools, self.console.say, class_archive=self.class_archive)
        with (
            History(directory.history_path) as history,
            stack,
            linked(stack) as link,
            result_store(directory, self.database) as database,
        ):
            hold = Hold(directory.path / "work" / "points")
            os.environ.update(hold.env)
            os.environ["AWS_ACCESS_KEY_ID"] = stack.endpoints.s3_access_key
            os.environ["AWS_SECRET_ACCESS_KEY"] = stack.endpoints.s3_secret_key
            bootstrap = stack.endpoints.kafka_bootstrap
            home = OwnHome(
                tools,
                stack.endpoints,
                directory.path,
                self.class_archive,
                conf=heartbeats(),
                environment=job.environment(tools),
            )
            # The pipeline reaches its store by the link, the harness goes straight to it.
            settings = PipelineSettings.model_validate(
                {
                    **SETTINGS,
                    **said["defaults"],
                    **job.settings,
                    "kafka_bootstrap": bootstrap,
                    "s3_endpoint": link.endpoint,
                    "s3_bucket": stack.endpoints.s3_bucket,
                    "epoch_rows_max": self.subject.epoch_rows_max,
                    "transaction_timeout_s": TRANSACTION_TIMEOUT_S,
                    "database": database.url if database else None,
                }
            )
            watch = Watch(directory.path / "work" / "events.jsonl", history)
            drivers = SupervisedDrivers(home, PROGRAM, watch.path, history=history, say=self.console.say)
            kept = {name: getattr(settings, name) for name in ("pipeline", "window_ms", "lateness_ms")}
            document = {**said["declaration"], **kept}
            declaration = Declaration.of(document)
            directory.write_json(directory.observed / DECLARATION, document)
            act = OwnAct(
                directory,
                history,
                Place(stack.endpoints, settings, drivers, watch, patience=PATIENCE),
                self.subject,
                console=self.console,
                stop=self.stop,
                faults=plan(self.seed, self.strikes, settings.shards, said, self.stalls_s),
                arsenal=EmbeddedArsenal(
                    drivers,
                    watch,
                    stack.kafka,
                    stack.object_store,
                    link,
                    hold,
                    bootstrap,
                    settings.pipeline,
                    result_store=database,
                    seed=self.seed,
                    say=self.console.say,
                ),
                open_transactions=lambda: open_transactions(tools.java, tools.kafka_classpath, bootstrap),
            )
            collector = OwnCollector(
                directory,
                act.topics,
                act.chain,
                settings=settings,
                declaration=declaration,
                kafka_sinks=said["kafka"],
                database=database,
                transform=lambda source, given: home.transform(settings.job, source, given),
            )
            act.declare(declaration, said["kafka"], collector, home.create if said["tables"] else lambda _: None)
            act.go()
            history.end()

    @property
    def _shards(self) -> int:
        return int({**SETTINGS, **self.job.settings}["shards"])

    def _manifest(self, run: str) -> dict[str, Any]:
        settings, subject = self.job.settings, self.subject
        claim = CLAIM.format(input=subject.named["input"], job=settings["job"])
        return manifest_of(
            run,
            claim,
            self.seed,
            subject,
            checkout=self.checkout,
            pipeline=settings["pipeline"],
            topic=settings["topic"],
            shards=self._shards,
            strikes=self.strikes,
            named={
                "campaign": OWN_PIPELINE,
                "job": settings["job"],
                **subject.named,
                "faults": ",".join(name_of(one) for one in self.strikes),
                **Conditions(stall_s=tuple(self.stalls_s)).named,
            },
            schemas={name: SinkSchema.model_validate(one) for name, one in self.said["schemas"].items()},
            code=self.said["code"],
        )


def asked(job: Job, toolchain: Toolchain) -> dict[str, Any]:
    """What a job declares, asked of it in a process of its own (tests.harness.own_given).

    Raises:
        RunError: it cannot be imported, is no declaration, or is one that cannot be judged; with what was said.
    """
    environment = job.environment(toolchain)
    command, path = python_of(environment)
    argv = [*command, "declaration", str(job.settings["job"])]
    try:
        answer = subprocess.run(
            argv, env={**os.environ, **environment, **path}, capture_output=True, text=True, timeout=ASK_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{job.name}: its module is not imported within {ASK_S:.0f} s; see what it does") from error
    if answer.returncode:
        said = (answer.stderr.strip().splitlines() or ["nothing was said"])[-1]
        raise RunError(f"{job.name}: {_NAMED.sub('', said)}")
    found: dict[str, Any] = orjson.loads(answer.stdout.splitlines()[-1])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    given = _given(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    try:
        return _run(seed, given)
    except (UserError, NoFaultError, InputError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return interrupted(end, "every fault is undone, everything that was started has been stopped")


def _run(seed: int, given: argparse.Namespace) -> int:
    from rich.console import Console as Terminal  # noqa: PLC0415

    strikes = without_clock(asked_for(given.faults, seed), given.faults, NO_CLOCK)
    strikes = without_requests(strikes, given.faults, NO_REQUESTS)
    strikes = without_cuts(strikes, given.faults, NO_CUTS)
    strikes = without_slow_disks(strikes, given.faults, NO_SLOW_DISKS)
    # Before anything takes a minute: the file is there, and has these columns.
    from_file(given.input, given.key, given.time)
    console = default_console()
    cache = Cache(cache_root())
    job = Job.at(given.at, given.job, cache) if given.at else Job.named(given.job)
    toolchain = prepare(console)
    said = asked(job, toolchain)
    if not said["tables"]:
        strikes = without_result_store(strikes, given.faults)
    database = find_postgres() if said["tables"] else None
    if said["tables"] and database is None:
        raise RunError(f"{job.name} has tables. {HOW}")
    subject = subject_of(given.input, given.key, given.time, strikes, {**said["defaults"], **job.settings})
    for sink, why in said["declaration"]["left_out"].items():
        console.say(f"… not judged: sink {sink}, {why}")
    archive = class_archive(toolchain, console)
    own = OwnPipeline(job, said, toolchain, subject, strikes, seed, console, CHECKOUT, archive, database, given.stall_s)
    results = own.run()
    show(results, Terminal(highlight=False, soft_wrap=True))
    return results.verdict.exit_code


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.own.pipeline",
        description="Strikes a pipeline of yours on the embedded stack; judges its outputs.",
    )
    parser.add_argument("--at", type=Path, help="its folder, as new-pipeline makes it: settings.json and a package")
    parser.add_argument("--job", help="module or module:name; the settings' when left out")
    parser.add_argument("--input", type=Path, required=True, help="its records: .jsonl, .csv or .parquet")
    parser.add_argument("--key", required=True, help="column that is the key of a record")
    parser.add_argument("--time", required=True, help="column of the event time")
    parser.add_argument("--faults", default=FAULTS, help="names with commas between, name*count, or all (%(default)s)")
    parser.add_argument("--seed", type=int, help="draws when what is struck; drawn and printed when left out")
    add_stall_lengths(parser)
    given = parser.parse_args(arguments)
    if given.at is None and given.job is None:
        parser.error("name the folder of a pipeline (--at), or a job of the library (--job)")
    return given


if __name__ == "__main__":
    sys.exit(guarded(main))
