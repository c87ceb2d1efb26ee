"""The Pod Security Standard `restricted` on a pod's spec, as Kubernetes 1.36 enforces it by a label of the namespace.

It reads specs alone: the API server's own rules are in the module k8s.io/pod-security-admission, one file each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from infra.policy.pods import Object, containers

VOLUMES: Final = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
SECCOMP: Final = ("RuntimeDefault", "Localhost")
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def violations(pod: Object) -> list[str]:
    """Return what such a namespace would refuse a pod for, a line each; none: it is let in."""
    return [*_of_pod(pod), *(line for one in containers(pod) for line in _of_container(one, pod))]


def _of_pod(pod: Object) -> Iterator[str]:
    own = pod.get("securityContext", {})
    yield from (f"{field} is set" for field in HOST if pod.get(field))
    for volume in pod.get("volumes", []):
        if not volume.keys() & VOLUMES:
            yield f"volume {volume['name']} is none of {', '.join(sorted(VOLUMES))}"
    # Some of each are allowed. We need none, so the test asks for none.
    yield from (f"{field} are set" for field in ("sysctls", "seLinuxOptions", "windowsOptions") if own.get(field))
    if own.get("runAsUser") == 0:
        yield "the pod runs as root"


def _of_container(one: Object, pod: Object) -> Iterator[str]:
    name, own = one["name"], one.get("securityContext", {})
    both = {**pod.get("securityContext", {}), **own}
    if both.get("runAsNonRoot") is not True:
        yield f"{name}: runAsNonRoot is not true"
    if both.get("seccompProfile", {}).get("type") not in SECCOMP:
        yield f"{name}: seccompProfile is none of {', '.join(SECCOMP)}"
    if both.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield f"{name}: appArmorProfile is Unconfined"
    if own.get("runAsUser") == 0:
        yield f"{name}: it runs as root"
    if own.get("privileged"):
        yield f"{name}: privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: allowPrivilegeEscalation is not false"
    if "ALL" not in own.get("capabilities", {}).get("drop", []):
        yield f"{name}: capabilities are not all dropped"
    yield from (
        f"{name}: adds {more}" for more in own.get("capabilities", {}).get("add", []) if more != "NET_BIND_SERVICE"
    )
    yield from (
        f"{name}: {field} is set" for field in ("procMount", "seLinuxOptions", "windowsOptions") if own.get(field)
    )
    yield from (f"{name}: hostPort {port['hostPort']}" for port in one.get("ports", []) if port.get("hostPort"))
    for probe in PROBES:
        for way in ("httpGet", "tcpSocket"):
            if one.get(probe, {}).get(way, {}).get("host"):
                yield f"{name}: {probe} asks another host"
