"""`make acceptance SUITE=alerts`: from what is deployed to a verdict and its file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from effectively_once.pipeline.settings import PipelineSettings
from infra.cluster.access import CHECKOUT
from infra.cluster.login import logged_in
from infra.console import Console
from infra.versions import of_run
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.rendering import Chart
from tests.harness.adapters.topics import Topics
from tests.harness.alerts import judge, queries
from tests.harness.alerts.answers import AnswerError
from tests.harness.alerts.faults import Fault
from tests.harness.alerts.feed import Feed
from tests.harness.alerts.play import CALM_S, Play, choose
from tests.harness.alerts.results import AlertResults, Asked, Played, Quiet, markdown
from tests.harness.alerts.rules import Alert, read_alerts
from tests.harness.alerts.scene import Scene
from tests.harness.alerts.table import NOT_RAISED
from tests.harness.alerts.watcher import Watcher
from tests.harness.commit import git_state
from tests.harness.faults.cluster_platform import Platform
from tests.harness.results import Verdict
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.stack.deployed import Found, NotDeployedError, Target

if TYPE_CHECKING:
    from rich.console import Console as Out

CLAIM = (
    "On Kubernetes every alert that a fault can raise within minutes fires within the time that its rule states, names "
    "the pipeline or the server, reaches Alertmanager and ends once the fault is healed; where nothing is wrong none "
    "fires."
)


class NotWatchedError(NotDeployedError):
    """Nothing watches the deployed stack; the message says what to do."""


def on_this_machine(seed: int, console: Console, faults: str | None, quiet_minutes: float) -> AlertResults:
    """Play faults on the cluster that this machine's state directory or KUBECONFIG names, and judge what was raised.

    Args:
        seed: is in the name of the run; nothing is drawn.
        console: tells what is under way.
        faults: names with commas between; None: all.
        quiet_minutes: before the faults, in which nothing may fire.

    Raises:
        NoFaultError: there is no such fault; nothing was touched.
        NotWatchedError, NotDeployedError: no Prometheus of ours, no user_counts, or no helm; nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    chosen = choose(faults)
    with Found.alone("make acceptance SUITE=alerts", console) as found:
        target = found.target()
        refuse_unwatched(found, target)
        path = new_run(CHECKOUT / "runs" / "alerts", seed)
        point_latest(path)
        console.say(f"run {path.relative_to(CHECKOUT)}: {len(chosen)} faults")
        begin_s = time.monotonic()
        with make_scene(found, target, path, console) as scene:
            alerts = {name: one for name, one in read_alerts().items() if _is_scraped(one, found)}
            results = _play(Play(scene, alerts, console), chosen, quiet_minutes * 60)
        results = results.model_copy(update={"duration_s": round(time.monotonic() - begin_s, 1)})
        directory = RunDirectory(path)
        directory.write_json(path / "results.json", results.model_dump(mode="json"))
        (path / "table.md").write_text(markdown(results, judge.find_all_wrong(results.faults)))
        console.say(f"results {(path / 'results.json').relative_to(CHECKOUT)}")
        return results


def refuse_unwatched(found: Found, target: Target) -> None:
    """Refuse a stack without what is needed. Raises NotWatchedError."""
    if not found.deployed.platform.monitoring:
        raise NotWatchedError(
            "no Prometheus of ours watches this stack: `make up MONITORING=1` sets monitoring.enabled and builds its "
            "image; then run again"
        )
    if target.values.get("suspend"):
        raise NotWatchedError(
            "the pipeline user_counts is suspended: `pulumi config set --path pipelines.user_counts.suspend false`, "
            "then `make up`"
        )


@contextmanager
def make_scene(found: Found, target: Target, path: Path, console: Console) -> Iterator[Scene]:
    """Reach everything, and send records until the block ends; whatever is owed is undone then."""
    deployed = found.deployed
    names = deployed.platform.namespaces
    pipelines, platform, *operator = (
        Cluster(deployed.kubeconfig, deployed.context, name)
        for name in (names.pipelines, names.platform, *([names.operator] if names.operator else []))
    )
    with logged_in(deployed) as endpoints:
        outside = {"kafka_bootstrap": endpoints.kafka_bootstrap, "s3_endpoint": endpoints.s3_endpoint}
        settings = PipelineSettings.model_validate({**target.values["settings"], **outside})
        partitions = len(Topics(endpoints.kafka_bootstrap).ends(settings.topic))
        run = f"alerts-{path.name}"
        with (
            Watcher(platform) as watcher,
            Feed(endpoints.kafka_bootstrap, settings.topic, partitions, run) as feed,
        ):
            scene = Scene(
                run,
                watcher,
                pipelines,
                platform,
                operator[0] if operator else None,
                settings,
                target.values,
                Chart(found.helm, CHECKOUT / "charts" / "streaming-pipeline"),
                Platform.of(deployed.kubeconfig, deployed.context, deployed.platform, None).servers,
                feed,
                console.say,
            )
            try:
                yield scene
            finally:
                scene.heal()


def _is_scraped(alert: Alert, found: Found) -> bool:
    """Whether its rule is there: those of servers come with their targets."""
    return alert.file != "spark-operator" or found.deployed.platform.namespaces.operator is not None


def _play(play: Play, chosen: Sequence[Fault], quiet_s: float) -> AlertResults:
    """Quiet, queries, faults, quiet; whatever breaks off, what was seen until then is judged."""
    scene, alerts = play.scene, play.alerts
    played: list[Played] = []
    quiet: list[Quiet] = []
    asked: list[Asked] = []
    broke: list[str] = []
    try:
        with play.console.step("every target up, and no alert"):
            play.settle()
        quiet.append(play.watch_quiet(quiet_s))
        asked = _ask(scene, alerts)
        play.console.say(f"  {sum(one.holds for one in asked)} of {len(asked)} queries and rules are as they should be")
        for number, fault in enumerate(chosen, 1):
            play.console.say(f"{number} of {len(chosen)}: {fault.name}")
            played.append(play.play(fault))
        with play.console.step("no alert in the end"):
            play.settle(CALM_S)
    except (Exception, KeyboardInterrupt) as error:
        broke.append(f"broke off: {type(error).__name__}: {error}")
        play.console.say(f"✗ {broke[0]}")
    refuting = [*judge.list_refuting(quiet, asked, played)]
    unknown = [*broke, *judge.list_unknown(played, alerts, NOT_RAISED)]
    try:
        targets = {f"{one.job} {one.address}": one.up for one in scene.watcher.targets()}
    except AnswerError:
        targets = {}
    return AlertResults(
        claim=CLAIM,
        verdict=judge.conclude(refuting, unknown),
        reasons=(*refuting, *unknown),
        quiet=tuple(quiet),
        targets=targets,
        queries=tuple(asked),
        faults=tuple(played),
        not_raised=NOT_RAISED,
        versions=of_run(),
        git=git_state(CHECKOUT),
    )


def _ask(scene: Scene, alerts: Mapping[str, Alert]) -> list[Asked]:
    """Ask every query, and how each rule is."""
    listed = queries.list_queries(alerts.values(), scene.pipeline, scene.application)
    answered = [queries.answer(one, scene.watcher.query) for one in listed]
    found = [
        Asked(by=one.query.asked_by, query=one.query.expression, series=one.series, why=one.why, holds=one.holds)
        for one in answered
    ]
    health = scene.watcher.health()
    for name in alerts:
        why = health.get(name, "Prometheus has no such rule")
        found.append(Asked(by=name, query="its rule", series=0, why=why, holds=not why))
    return found


def show(results: AlertResults, out: Out) -> None:
    """Print verdict, table and reasons."""
    wrong = judge.find_all_wrong(results.faults)
    out.print(markdown(results, wrong), markup=False, highlight=False, soft_wrap=True)
    sign = {Verdict.PASS: "✓", Verdict.FAIL: "✗", Verdict.UNKNOWN: "?"}[results.verdict]
    out.print(f"{sign} {results.verdict.name}: {results.claim}", markup=False, highlight=False, soft_wrap=True)
    for one in results.reasons:
        out.print(f"  {one}", markup=False, highlight=False, soft_wrap=True)
