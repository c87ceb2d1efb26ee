"""Tools built from their Go modules, each through a wrapper module of our own: `wrappers/<name>/go.mod` and `go.sum`.

A wrapper pins every dependency and its checksum, so the build is the same everywhere and needs no released binary.
The wrappers are built one after the other: a single Go build already keeps every core busy.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.toolchain import command
from infra.toolchain.cache import Cache, digest
from infra.toolchain.go import find_go, parse_go_version
from infra.versions import ALERTMANAGER, KUBERNETES, PROMETHEUS, PULUMI, PULUMI_KUBERNETES

WRAPPERS = Path(__file__).parent / "wrappers"
GOARCH = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "amd64": "amd64"}
MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class GoTool:
    """One wrapper module and what is built from it."""

    name: str
    """Folder of the wrapper; name of the artefact."""
    binaries: Mapping[str, str]
    """Package to build (`.` for the wrapper's own main) by the name its binary is given."""
    expected_s: float
    """Measured on two cores with nothing cached."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """Variables that the linker sets."""
    tags: str = ""
    source: Path | None = None
    """Folder of a module that is no wrapper of this name."""

    @property
    def folder(self) -> Path:
        """Where go.mod and go.sum are."""
        return self.source or WRAPPERS / self.name

    def flags(self) -> tuple[str, ...]:
        """Build flags; part of the key of the artefact."""
        stamps = "".join(f" -X {name}={value}" for name, value in self.stamps.items())
        return ("-trimpath", *(("-tags", self.tags) if self.tags else ()), "-ldflags", f"-s -w{stamps}")


def _kubernetes_stamps() -> dict[str, str]:
    # kubeadm refuses a version it cannot read, and the defaults are placeholders.
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    places = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{place}.{name}": value for place in places for name, value in values.items()}


NODE_BINARIES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubeadm",
    "kubectl",
    "kubelet",
)

MINIO = GoTool("minio", {"minio": "github.com/minio/minio"}, 150)
KUBERNETES_TOOL = GoTool(
    "kubernetes",
    {name: f"k8s.io/kubernetes/cmd/{name}" for name in NODE_BINARIES},
    400,
    _kubernetes_stamps(),
    "selinux,notest,grpcnotrace",
)
KUBECTL_TOOL = GoTool(
    "kubectl",
    {"kubectl": KUBERNETES_TOOL.binaries["kubectl"]},
    120,
    KUBERNETES_TOOL.stamps,
    KUBERNETES_TOOL.tags,
    KUBERNETES_TOOL.folder,
)
"""Alone, for whoever has a cluster: the other programs are a cluster's."""
KIND_TOOL = GoTool("kind", {"kind": "sigs.k8s.io/kind"}, 10)
ETCD_TOOL = GoTool("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}, 45)
COREDNS_TOOL = GoTool("coredns", {"coredns": "."}, 85)
LOCAL_PATH_TOOL = GoTool(
    "local-path-provisioner", {"local-path-provisioner": "github.com/rancher/local-path-provisioner"}, 76
)
SPARK_OPERATOR_TOOL = GoTool(
    "spark-operator",
    {
        "spark-operator": "github.com/kubeflow/spark-operator/v2/cmd/operator",
        "controller-gen": "sigs.k8s.io/controller-tools/cmd/controller-gen",
    },
    100,
)
PULUMI_TOOL = GoTool(
    "pulumi",
    {"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    270,
    {"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": f"v{PULUMI}"},
    "osusergo,grpcnotrace",
)
PULUMI_KUBERNETES_TOOL = GoTool(
    "pulumi-kubernetes",
    {"pulumi-resource-kubernetes": "."},
    670,
    {"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version": f"v{PULUMI_KUBERNETES}"},
)
PAUSE_TOOL = GoTool("pause", {"pause": "."}, 3)
HELM_TOOL = GoTool("helm", {"helm": "helm.sh/helm/v4/cmd/helm"}, 120)
_VERSION = "github.com/prometheus/common/version.Version"
PROMETHEUS_TOOL = GoTool(
    "prometheus",
    {name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
    100,
    {_VERSION: PROMETHEUS},
    # Of all clouds that it could ask for targets, Kubernetes alone: a third of the time to build.
    "remove_all_sd,enable_kubernetes_sd",
)
"""Without its pages, which are built by others' tools: there is the API, and Grafana."""
ALERTMANAGER_TOOL = GoTool(
    "alertmanager",
    {name: f"github.com/prometheus/alertmanager/cmd/{name}" for name in ("alertmanager", "amtool")},
    20,
    {_VERSION: ALERTMANAGER},
)

# In this order the build cache is of most use: those after the first find Kubernetes' libraries compiled.
ALL = (
    KUBERNETES_TOOL,
    KIND_TOOL,
    ETCD_TOOL,
    COREDNS_TOOL,
    LOCAL_PATH_TOOL,
    SPARK_OPERATOR_TOOL,
    HELM_TOOL,
    PROMETHEUS_TOOL,
    ALERTMANAGER_TOOL,
    PAUSE_TOOL,
    PULUMI_TOOL,
    PULUMI_KUBERNETES_TOOL,
    MINIO,
)


def machine_arch() -> str:
    """Go's name of this machine's architecture; images are built for it unless told otherwise."""
    return GOARCH.get(platform.machine(), platform.machine())


def key(tool: GoTool, arch: str) -> str:
    """Digest of everything the binaries depend on."""
    parts: dict[str, str | bytes] = {
        "mod": (tool.folder / "go.mod").read_text(),
        "sum": sums.read_bytes() if (sums := tool.folder / "go.sum").exists() else b"",
        "flags": " ".join(tool.flags()),
        "machine": MACHINE.get(arch, arch),
    }
    for source in sorted(tool.folder.glob("*.go")):
        parts[source.name] = source.read_bytes()
    if len(tool.binaries) > 1 or "." in tool.binaries.values():
        parts["binaries"] = " ".join(f"{name}={package}" for name, package in sorted(tool.binaries.items()))
    return digest(parts)


def is_built(cache: Cache, tool: GoTool, arch: str | None = None) -> bool:
    """Whether the tool is in the cache already."""
    return cache.has(_artefact(tool, arch or machine_arch()), key(tool, arch or machine_arch()))


def _artefact(tool: GoTool, arch: str) -> str:
    return tool.name if arch == machine_arch() else f"{tool.name}-{arch}"


def build(cache: Cache, tool: GoTool, arch: str | None = None, hint: str = "") -> Path:
    """Return the directory of the tool's binaries, built at most once per input.

    Raises ToolchainError when the build fails; `hint` ends the sentence in it that says what to do.
    """
    arch = arch or machine_arch()
    mod = (tool.folder / "go.mod").read_text()

    def work(directory: Path) -> None:
        go = find_go(cache, parse_go_version(mod) or ())
        raw = directory / "raw"
        raw.mkdir()
        command.run(
            tool.name,
            [go.path, "build", *tool.flags(), "-o", f"{raw}{os.sep}", *tool.binaries.values()],
            cwd=tool.folder,
            env={"CGO_ENABLED": "0", "GOARCH": arch, "GOOS": "linux"},
            log=cache.root / "logs" / f"{tool.name}.log",
            hint=f"check that Go reaches its module proxy (`go env GOPROXY`){hint}",
        )
        for name, package in tool.binaries.items():
            (raw / _default_name(package, mod)).rename(directory / name)
        raw.rmdir()

    return cache.get(_artefact(tool, arch), key(tool, arch), work)


def _default_name(package: str, mod: str) -> str:
    """Return the name Go gives the binary of a package: its last element that is not a major version."""
    path = shlex.split(mod.splitlines()[0])[1] if package == "." else package
    *_, before, last = path.split("/")
    return before if last[:1] == "v" and last[1:].isdigit() else last
