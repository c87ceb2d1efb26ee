"""Room for a run on a cluster: deployed pipelines suspended meanwhile, and everything of the run gone after it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.harness.adapters.cluster import Cluster, label_of, state_of
from tests.harness.adapters.rendering import RUN_LABEL, Object

OURS = "app.kubernetes.io/part-of=effectively-once"
SUSPENDED_BY = "effectively-once/suspended-by"
SUSPENDED_S, GONE_S = 90.0, 120.0
RESTING = ("SUSPENDED", "FAILED", "COMPLETED")
ENDED = ("Succeeded", "Failed")


class Tenancy:
    """A context: on entry leftovers of broken runs are deleted and deployed pipelines suspended, on exit the reverse.

    A pipeline that a run suspended says so in an annotation: when that run was killed, the next one resumes it.
    """

    def __init__(self, cluster: Cluster, run: str, say: Callable[[str], None]) -> None:
        self._cluster, self._run, self._say = cluster, run, say
        self._suspended: list[str] = []

    def __enter__(self) -> Self:
        """Make room; undone again when that fails half-way."""
        try:
            left = self._cluster.labelled(RUN_LABEL)
            if left:
                self._say(f"… deleting what an earlier run left: {', '.join(left)}")
                self._delete(RUN_LABEL)
            self._suspend()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete everything of the run and resume what was suspended; a failure of that is said, and raised."""
        try:
            self._delete(label_of(self._run))
        finally:
            self._leave()

    def _suspend(self) -> None:
        for one in self._cluster.applications(f"{OURS},!{RUN_LABEL}"):
            if not to_suspend(one):
                if to_resume(one):
                    self._suspended.append(one["metadata"]["name"])
                continue
            name = one["metadata"]["name"]
            self._suspended.append(name)
            self._cluster.patch_application(
                name, {"metadata": {"annotations": {SUSPENDED_BY: self._run}}, "spec": {"suspend": True}}
            )
        self._cluster.wait_for(
            f"pipelines {', '.join(self._suspended)} to be suspended and their pods gone",
            lambda: all(self._rests(name) for name in self._suspended),
            SUSPENDED_S,
            lambda: {name: state_of(self._cluster.application(name)) for name in self._suspended},
        )
        if self._suspended:
            self._say(f"✓ suspended for the run: {', '.join(self._suspended)}")

    def _rests(self, name: str) -> bool:
        pods = self._cluster.pods(f"sparkoperator.k8s.io/app-name={name}")
        # An executor whose driver was deleted before they met ends by itself; its pod stays until the pipeline ends.
        room = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ENDED]
        return state_of(self._cluster.application(name)) in (*RESTING, "gone") and not room

    def _leave(self) -> None:
        """Resume every pipeline, also when resuming one of them fails; the first failure is raised at the end."""
        failures: list[Exception] = []
        for name in self._suspended:
            try:
                change: Object = {"metadata": {"annotations": {SUSPENDED_BY: None}}, "spec": {"suspend": False}}
                self._cluster.patch_application(name, change)
            except Exception as error:
                failures.append(error)
                self._say(f"✗ pipeline {name} could not be resumed: set spec.suspend of its SparkApplication to false")
        if failures:
            raise failures[0]
        if self._suspended:
            self._say(f"✓ resumed: {', '.join(self._suspended)}")
        self._suspended = []

    def _delete(self, selector: str) -> None:
        self._cluster.delete_labelled(selector)
        self._cluster.wait_for(
            f"the end of everything labelled {selector}",
            lambda: self._emptied(selector),
            GONE_S,
            lambda: self._cluster.labelled(selector),
        )

    def _emptied(self, selector: str) -> bool:
        if not self._cluster.labelled(selector):
            return True
        # Asked for again: what an operator was making at that very moment came after the first look.
        self._cluster.delete_labelled(selector)
        return False


def to_suspend(application: Object) -> bool:
    """Whether a deployed pipeline takes room: it is not suspended already, by its own settings or by a run."""
    return not (application.get("spec") or {}).get("suspend")


def to_resume(application: Object) -> bool:
    """Whether a pipeline that is suspended was so by an earlier run, which did not live to resume it."""
    return SUSPENDED_BY in ((application.get("metadata") or {}).get("annotations") or {})
