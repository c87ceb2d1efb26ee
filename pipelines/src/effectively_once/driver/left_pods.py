"""Deletes pods of executors that have ended and stay beside their running driver.

Spark deletes them itself (`deleteOnTermination`), each poll anew, for as long as it looks at them. One of which it does
not hear any more stays `Completed` for as long as the driver lives: SPARK-37856 is one such case. So whoever still is
there after a minute of Spark's polls, ended, is deleted here, of this application alone (ADR 0094).
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import structlog

from effectively_once.driver.pod_api import HOST, PodApi, PodApiError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 10.0
LOOKS = 6
"""So often in a row a pod was there and had ended: a minute, in which Spark polls twelve times."""
ENDED = ("Succeeded", "Failed")
KEPT = "spark.kubernetes.executor.deleteOnTermination"

log = structlog.get_logger()


class LeftPods:
    """One per driver.

    Args:
        api: of the namespace.
        application: what Spark labels the pods of this driver's executors with.

    """

    def __init__(self, api: PodApi, application: str) -> None:
        self._api, self._selector = api, f"spark-app-selector={application},spark-role=executor"
        self._looks: dict[str, int] = {}
        self._said = ""

    def look(self) -> list[str]:
        """Look once; return the names of the pods that were deleted. Raises PodApiError."""
        ended = {pod["metadata"]["uid"]: pod for pod in self._api.read(self._selector) if _stays(pod)}
        # One that is gone, or runs after all, begins anew.
        self._looks = {uid: self._looks.get(uid, 0) + 1 for uid in ended}
        left = [(uid, ended[uid]["metadata"]["name"]) for uid, looks in self._looks.items() if looks >= LOOKS]
        for uid, name in left:
            log.warning("a pod of an executor that ended was left, and is deleted", pod=name)
            self._api.delete(name, uid)
        return [name for _, name in left]

    def start(self, stopping: threading.Event) -> None:
        """Look in a thread of its own until `stopping` is set: an API that is away must not keep anybody else."""
        threading.Thread(target=self._run, args=(stopping,), name="left-pods", daemon=True).start()

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.wait(EVERY_S):
            self._look_and_say()

    def _look_and_say(self) -> None:
        try:
            self.look()
            self._said = ""
        except PodApiError as error:
            # Nothing of an epoch depends on it, and every few seconds it would be the same.
            if str(error) != self._said:
                log.warning("whether pods of executors are left cannot be told", error=str(error))
            self._said = str(error)


def watch(spark: SparkSession, stopping: threading.Event) -> None:
    """Begin where this driver is a pod whose executors are, and are not kept for a post-mortem."""
    if HOST not in os.environ:
        return
    conf = spark.sparkContext.getConf()
    if not str(conf.get("spark.master", "")).startswith("k8s") or conf.get(KEPT, "true") == "false":
        return
    api = PodApi.of_this_pod(str(conf.get("spark.kubernetes.namespace", "default")))
    LeftPods(api, spark.sparkContext.applicationId).start(stopping)


def _stays(pod: dict[str, Any]) -> bool:
    # One with a time of deletion is on its way, and waits for its node.
    return pod.get("status", {}).get("phase") in ENDED and not pod["metadata"].get("deletionTimestamp")
