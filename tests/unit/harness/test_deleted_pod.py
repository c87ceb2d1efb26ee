"""When a pod is told to have been deleted."""

from __future__ import annotations

from typing import Any

from tests.harness.adapters.cluster import Cluster
from tests.harness.faults.fault import now_ms


class Core:
    """An API whose answer comes when the pod is gone already."""

    gone_at = 0

    def delete_namespaced_pod(self, name: str, namespace: str, body: Any) -> None:
        self.gone_at = now_ms()
        while now_ms() == self.gone_at:
            pass


def test_a_pod_that_ends_before_the_answer_was_struck_before_it_ended() -> None:
    cluster: Any = object.__new__(Cluster)
    cluster.namespace, cluster._core = "n", Core()
    assert 0 < cluster.delete_pod("uc-1-driver", "a-1", 0) <= cluster._core.gone_at
