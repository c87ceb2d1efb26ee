"""The acts of one run on a cluster: that of its main pipeline, of its baseline, and the controls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectively_once.pipeline.settings import PipelineSettings
from tests.harness.act import PARTITIONS, Act
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_hold import ENVIRONMENT
from tests.harness.adapters.pods import PodDrivers
from tests.harness.adapters.rendering import lay_over
from tests.harness.adapters.services import Services
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.transactions import open_transactions
from tests.harness.collector import USER_COUNTS, Outputs
from tests.harness.controls.names import NegativeControl
from tests.harness.controls.run import run_controls
from tests.harness.faults.arsenal import Arsenal
from tests.harness.history import History
from tests.harness.play.inquired_in_pods import inquiry_in_pods
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import PlannedFault
from tests.harness.stack.cluster import BASELINE, ClusterStack
from tests.harness.stack.stack import Patience
from tests.harness.stall_sorts import NEIGHBOURS
from tests.harness.subject import Subject

if TYPE_CHECKING:
    # It brings Spark, and most runs have none.
    from tests.harness.definition.asked import Definition
    from tests.harness.play.result_table import ResultTable

SHARDS = 2
MAIN_PREFIX, BASELINE_PREFIX, CONTROLS_PREFIX = "uc", "ub", "nc"
CONTROL_MODULE, CONTROL_SCRIPT = "negative_controls", Path(__file__).parents[1] / "controls" / "job.py"
PATIENCE = Patience(driver_s=180.0, replaced_s=120.0, take_over_s=180.0)


@dataclass(frozen=True)
class ClusterActs:
    """What is played on the stack of one run: the main pipeline, the baseline's, the controls'.

    Attributes:
        stack: where it runs; settings and evidence go to its directory.
        seed: draws what the controls send.
        stop: set from outside to end early.
        table: what the main pipeline writes to beside its other sinks; None: nothing.
    """

    stack: ClusterStack
    seed: int
    stop: threading.Event
    table: ResultTable | None = None

    def main(
        self,
        subject: Subject,
        planned: Sequence[PlannedFault],
        arsenal: Callable[[SupervisedPods, Watch], Arsenal] | None = None,
        *,
        partitions: int = PARTITIONS,
        changes: Mapping[str, Any] | None = None,
        definition: Definition | None = None,
        services: Services | None = None,
    ) -> None:
        """Strike, drain, epilogue, evidence.

        Args:
            subject: what is sent.
            planned: the faults, in their order.
            arsenal: makes them. Left out they are executors' alone, and a driver that ends is the end of the run.
            partitions: of the input topic.
            changes: values of the chart, laid over those of the deployed pipeline.
            definition: of the pipeline; None: it is `user_counts`.
            services: reads servers of several copies meanwhile; None: nobody does.
        """
        changes = changes or {}
        settings = self._of(MAIN_PREFIX, subject, self.table, changes.get("settings"))
        self._act(
            self.stack.directory,
            settings,
            subject,
            planned,
            arsenal,
            table=self.table,
            partitions=partitions,
            changes=changes,
            definition=definition,
            services=services,
        )

    def baseline(self, subject: Subject, manifest: Mapping[str, Any]) -> None:
        """The same without a fault, in a run directory of its own below this one's."""
        own = self.stack.directory.control(BASELINE)
        own.path.mkdir(parents=True)
        settings = self._of(BASELINE_PREFIX, subject)
        own.write_json(own.manifest_path, manifest)
        with self.stack.console.step("baseline, without a fault"):
            self._act(own, settings, subject, ())

    def controls(self, controls: Sequence[NegativeControl]) -> None:
        """The negative controls, in one application of their own."""
        stack, directory = self.stack, self.stack.directory
        settings = stack.settings_of(CONTROLS_PREFIX)
        path = directory.path / "settings-controls.json"
        path.write_text(settings.model_dump_json(indent=1))
        events = directory.path / "work" / "controls.jsonl"
        script = {f"{CONTROL_MODULE}.py": CONTROL_SCRIPT.read_text()}
        values = stack.values(settings, module=CONTROL_MODULE, extra_files=script)
        with (
            stack.console.step("negative controls, which must fail"),
            History(directory.path / "work" / "controls-history.jsonl") as scratch,
        ):
            log = stack.follow(values, events, directory.logs)
            drivers = PodDrivers(stack.cluster, stack.chart, values, stack.run, log, stack.console.say)
            run_controls(
                directory,
                drivers,
                stack.topics,
                Watch(events, scratch),
                settings=path,
                seed=self.seed,
                console=stack.console,
                stop=self.stop,
                controls=controls,
            )

    def _act(
        self,
        directory: RunDirectory,
        settings: PipelineSettings,
        subject: Subject,
        planned: Sequence[PlannedFault],
        arsenal: Callable[[SupervisedPods, Watch], Arsenal] | None = None,
        *,
        table: ResultTable | None = None,
        partitions: int = PARTITIONS,
        changes: Mapping[str, Any] | None = None,
        definition: Definition | None = None,
        services: Services | None = None,
    ) -> None:
        stack, tools, bootstrap = self.stack, self.stack.tools, self.stack.endpoints.kafka_bootstrap
        prefix = f"{settings.pipeline}."
        with History(directory.history_path) as history:
            # Settings are of the pipeline already, checked.
            laid = {name: own for name, own in (changes or {}).items() if name != "settings"}
            values = lay_over(stack.values(settings), laid)
            if any(one.strike.target == NEIGHBOURS for one in planned):
                values = lay_over(values, {"environment": ENVIRONMENT})
            if table is not None:
                values = table.values(values, stack.run)
            create = partial(stack.make, settings, partitions, **values)
            watch = Watch(directory.path / "work" / "events.jsonl", history)
            log = stack.follow(values, watch.path, directory.logs)
            pods = (stack.cluster, stack.chart, values, stack.run, log, stack.console.say)
            supervised = SupervisedPods(*pods, history=history) if arsenal else None
            act = Act(
                directory,
                history,
                stack,
                subject,
                settings=settings,
                drivers=supervised or PodDrivers(*pods),
                watch=watch,
                console=stack.console,
                stop=self.stop,
                faults=planned,
                arsenal=arsenal(supervised, watch) if arsenal and supervised else None,
                # The broker is shared: other pipelines' transactions come and go.
                open_transactions=lambda: [
                    one for one in open_transactions(tools.java, tools.classpath, bootstrap) if one.startswith(prefix)
                ],
                partitions=partitions,
                outputs=self._outputs(directory, settings, table, definition, create),
                services=services,
            )
            with inquiry_in_pods(stack, directory, settings, supervised) if subject.gateways else nullcontext():
                act.go()
            history.end()

    def _outputs(
        self,
        directory: RunDirectory,
        settings: PipelineSettings,
        table: ResultTable | None,
        definition: Definition | None,
        create: Callable[[], None],
    ) -> Outputs:
        """What a pipeline writes to; `create` makes tables of one that its author defined."""
        if definition is None:
            return USER_COUNTS if table is None else table.outputs(settings.pipeline, settings.shards)
        tables = None if table is None else table.tables(settings.pipeline)

        def make(_: Path) -> None:
            create()
            if table is not None and tables is not None:
                table.drop_later(tables)

        return definition.outputs(directory, settings, self.stack.endpoints, tables, make)

    def _of(
        self, prefix: str, subject: Subject, table: ResultTable | None = None, changes: Mapping[str, Any] | None = None
    ) -> PipelineSettings:
        own = {"shards": SHARDS, "window_ms": subject.window_ms, "lateness_ms": subject.lateness_ms}
        return self.stack.settings_of(prefix, own | (table.settings if table is not None else {}) | dict(changes or {}))
