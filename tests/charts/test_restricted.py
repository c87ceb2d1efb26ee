"""Every pod of the platform is let into a namespace that enforces the Pod Security Standard `restricted`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from infra.policy.pods import Object
from infra.policy.restricted import violations
from infra.values.common import Values
from infra.values.streaming_pipeline import Service
from tests.charts import samples
from tests.charts.render import render
from tests.harness.adapters.service_pod import pod as service_pod

EVERY: dict[str, tuple[str, Values]] = {
    **samples.EACH,
    "pipeline-service": ("streaming-pipeline", samples.pipeline(service=Service(module="my.presenter"))),
}


@pytest.mark.parametrize(("chart", "values"), EVERY.values(), ids=EVERY.keys())
def test_pods_of_the_charts_are_let_in(chart: str, values: Values) -> None:
    pods = dict(render(chart, values.to_helm()).pods())
    assert pods
    assert {name: lines for name, one in pods.items() if (lines := violations(one))} == {}


def test_a_service_that_a_run_puts_beside_a_pipeline_is_let_in() -> None:
    assert violations(service_pod("payments", {}, {"image": "x:1"})["spec"]) == []


def good() -> Object:
    """Return the driver of a pipeline, the pod with the most in it."""
    return copy.deepcopy(
        dict(render("streaming-pipeline", samples.pipeline().to_helm()).pods())["SparkApplication/user-counts/driver"]
    )


@pytest.mark.parametrize(
    ("where", "change", "expected"),
    [
        ("pod", {"hostNetwork": True}, "hostNetwork is set"),
        ("pod", {"hostPID": True}, "hostPID is set"),
        ("pod", {"hostIPC": True}, "hostIPC is set"),
        ("pod", {"volumes": [{"name": "node", "hostPath": {"path": "/"}}]}, "volume node is none of"),
        ("pod", {"initContainers": [{"name": "first"}]}, "first: capabilities are not all dropped"),
        ("pod security", {"runAsNonRoot": False}, "runAsNonRoot is not true"),
        ("pod security", {"runAsUser": 0}, "the pod runs as root"),
        ("pod security", {"seccompProfile": {"type": "Unconfined"}}, "seccompProfile is none of"),
        ("pod security", {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}, "sysctls are set"),
        ("container", {"ports": [{"containerPort": 1, "hostPort": 80}]}, "hostPort 80"),
        ("container", {"livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}, "asks another host"),
        ("security", {"runAsNonRoot": False}, "runAsNonRoot is not true"),
        ("security", {"runAsUser": 0}, "it runs as root"),
        ("security", {"privileged": True}, "privileged"),
        ("security", {"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation is not false"),
        ("security", {"capabilities": {}}, "capabilities are not all dropped"),
        ("security", {"capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]}}, "adds SYS_PTRACE"),
        ("security", {"seccompProfile": {"type": "Unconfined"}}, "seccompProfile is none of"),
        ("security", {"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile is Unconfined"),
        ("security", {"procMount": "Unmasked"}, "procMount is set"),
    ],
)
def test_each_rule_refuses(where: str, change: dict[str, Any], expected: str) -> None:
    pod = good()
    assert violations(pod) == []
    (container,) = pod["containers"]
    place = {
        "pod": pod,
        "pod security": pod["securityContext"],
        "container": container,
        "security": container["securityContext"],
    }
    place[where].update(change)
    lines = violations(pod)
    assert [line for line in lines if expected in line], lines
