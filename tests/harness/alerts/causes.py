"""What is done to a scene so that alerts fire; what is to be undone is owed to the scene."""

from __future__ import annotations

import time
from contextlib import suppress

from tests.harness.adapters.cluster import ClusterTimeoutError, state_of
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.held_pod import ALONE, EVERYTHING
from tests.harness.alerts.scene import DRIVER, EXECUTOR, Scene

NEVER_S = 600.0
SHORT_S, QUARTER_OF_S = 20 * 60, 12 * 60
"""How long the input is kept: half, or a quarter, passes in minutes, and no record expires before it is healed."""
TRIES, SUBMITTED_S, SETTLED_S, LOOK_S = 4, 120.0, 25.0, 0.02


def stall(scene: Scene) -> None:
    """Let no node take a pod, and delete the executors."""
    scene.cordon()
    scene.delete_pods(scene.pods(EXECUTOR))


def take_drivers_and_operator(scene: Scene) -> None:
    """Scale the operator to zero and delete all drivers."""
    assert scene.operator is not None
    scene.scale(scene.operator, "Deployment", "spark-operator", 0)
    scene.delete_pods(scene.pods(DRIVER))


def outlast_a_quarter(scene: Scene) -> None:
    """Keep operator and drivers away for a quarter of the time that the input is kept."""
    scene.keep_input(QUARTER_OF_S)
    take_drivers_and_operator(scene)
    asked = f'time() - max(max_over_time(timestamp(effectively_once_generation{{pipeline="{scene.pipeline}"}})[1h:1m]))'
    scene.wait_for(
        "a quarter of the retention without a driver",
        lambda: any(value > QUARTER_OF_S / 4 for _, value in scene.watcher.query(asked)),
        NEVER_S,
    )


class CrashLoop:
    """A driver is deleted, and so is each that takes over after it, as soon as Prometheus has seen it."""

    def __init__(self) -> None:
        self._last = 0.0

    def cause(self, scene: Scene) -> None:
        """Delete the first."""
        self._last = 0.0
        self.keep(scene)

    def keep(self, scene: Scene) -> None:
        """Delete the next, once it is there."""
        generation, pod = scene.value("generation"), scene.at_work()
        if generation is not None and pod is not None and generation > self._last:
            self._last = generation
            scene.delete_driver(pod)


def start_second(scene: Scene) -> None:
    """Stop the driver at work and start a second one. Raises NoProcessError: none is at work."""
    pod = scene.at_work()
    if pod is None:
        raise NoProcessError("no driver is at work")
    scene.stop(pod, ALONE)
    scene.start_second()
    scene.wait_for("two drivers to be seen", lambda: len(scene.series("generation")) > 1, NEVER_S)


def stop_driver(scene: Scene) -> None:
    """Stop the driver at work with all of its processes. Raises NoProcessError: none is at work."""
    pod = scene.at_work()
    if pod is None:
        raise NoProcessError("no driver is at work")
    scene.stop(pod, EVERYTHING)
    scene.wait_for("the standby to be at work", lambda: scene.at_work() not in (None, pod), NEVER_S)


def send_bad_records(scene: Scene) -> None:
    """Make every second record malformed."""

    def good() -> None:
        scene.feed.bad_share = 0.0

    scene.owe("good records alone", good)
    scene.feed.bad_share = 0.5


def use_up_half(scene: Scene) -> None:
    """Pause the pipeline until half of the time that its input is kept is used up."""
    # Undone the other way round: records are kept again before anything else.
    scene.pause()
    scene.keep_input(SHORT_S)
    scene.await_value(
        "half of the retention to be used up", "input_retention_left_ratio", lambda value: value <= 0.5, SHORT_S * 0.7
    )


def silence_broker(scene: Scene) -> None:
    """Pause the pipeline and scale the brokers to zero."""
    scene.pause()
    scene.scale(scene.platform, "StatefulSet", "kafka", 0)


def take_one_broker(scene: Scene) -> None:
    """Scale the brokers to one less."""
    scene.scale(scene.platform, "StatefulSet", "kafka", scene.count("broker") - 1)


def take_one_store(scene: Scene) -> None:
    """Scale the object store to one node less."""
    scene.scale(scene.platform, "StatefulSet", "minio", scene.count("object store") - 1)


def take_store(scene: Scene) -> None:
    """Scale the object store to zero."""
    scene.scale(scene.platform, "StatefulSet", "minio", 0)


def refuse_starts(scene: Scene) -> None:
    """Set a setting wrongly and delete the driver."""
    scene.set_wrongly(shards="many")
    scene.delete_pods(scene.pods(DRIVER))


def lose_submission(scene: Scene) -> None:
    """Kill the operator between a submission and its note of it. Raises NoProcessError: it was never in between."""
    scene.owe("drivers that the operator knows", scene.restart_drivers)
    for _ in range(TRIES):
        if _kill_operator_at_submission(scene):
            return
    raise NoProcessError(f"the operator noted the submission before it was killed, {TRIES} times")


def _kill_operator_at_submission(scene: Scene) -> bool:
    operator, before = scene.servers["operator"], scene.value("generation") or 0
    scene.wait_for("the operator to be ready", lambda: bool(operator.ready()), NEVER_S)
    armed = operator.killer(operator.chosen({}))
    try:
        pods = scene.pods(DRIVER)
        selector = f"effectively-once/pipeline={scene.application},spark-role={DRIVER}"
        known = {one["metadata"]["uid"] for one in scene.pipelines.pods(selector)}
        scene.delete_pods(pods)
        until = time.monotonic() + SUBMITTED_S
        while {one["metadata"]["uid"] for one in scene.pipelines.pods(selector)} <= known:
            if time.monotonic() > until:
                raise NoProcessError(f"no driver followed within {SUBMITTED_S:.0f} s")
            time.sleep(LOOK_S)
        armed.word()
        armed.struck()
    finally:
        armed.close()
    scene.await_value("the next driver at work", "generation", lambda value: value > before)
    scene.wait_for("the operator to be back", lambda: bool(operator.ready()), NEVER_S)
    with suppress(ClusterTimeoutError):
        scene.pipelines.wait_for(
            "the operator to know the driver",
            lambda: state_of(scene.pipelines.application(scene.application)) == "RUNNING",
            SETTLED_S,
            lambda: state_of(scene.pipelines.application(scene.application)),
        )
        return False
    return True
