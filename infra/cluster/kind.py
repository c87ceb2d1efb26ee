"""The kind cluster: its configuration, made, looked at, and deleted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.cluster.engine import Engine, EngineError
from infra.cluster.firewall import BRIDGE
from infra.console import Console
from infra.images.catalogue import LOCAL
from infra.toolchain.command import tail
from infra.versions import COREDNS, ETCD

NAME = "effectively-once"
POD_RANGE, SERVICE_RANGE = "10.244.0.0/16", "10.96.0.0/16"
# All lie below the ports that the kernel gives to outgoing connections, any of which would be in the way.
API_PORT = 12443
# Node port by port of this machine. Kafka: one a broker, as each advertises its own.
PORTS = {12092: 30092, 12093: 30093, 12094: 30094, 12000: 30900, 12001: 30901, 12080: 30180}


@dataclass(frozen=True)
class Kind:
    """kind on an engine; `log` takes what it says."""

    program: Path
    engine: Engine
    kubeconfig: Path
    log: Path

    def _environment(self) -> dict[str, str]:
        own = {"KIND_EXPERIMENTAL_DOCKER_NETWORK": NAME, "KUBECONFIG": str(self.kubeconfig)}
        return {**self.engine.environment(), **own}

    def _run(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *words], input=stdin, capture_output=True, text=True, check=False, env=self._environment()
        )

    def nodes(self) -> dict[str, str]:
        """State (`running`, `exited`, ...) of the cluster's containers by name."""
        words = ("ps", "--all", "--filter", f"label=io.x-k8s.kind.cluster={NAME}", "--format", "{{.Names}} {{.State}}")
        lines = self.engine.run(*words).splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def create(self, image: str, nodes: int, console: Console, *, published: bool = False) -> None:
        """Make the network and the cluster; its nodes need not be ready yet.

        `published`: the image is kind's own. Raises EngineError with the end of kind's output; what was made by then
        stays, for the caller to delete.
        """
        self._network()
        words = ("--name", NAME, "--image", image, "--config", "-", "--verbosity", "1", "--wait", "0s")
        with console.step("Kubernetes cluster", expected_s=60), self.log.open("w") as out:
            ended = subprocess.run(
                [self.program, "create", "cluster", *words],
                input=yaml.safe_dump(configuration(nodes, published=published)),
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                env=self._environment(),
            )
        if ended.returncode:
            raise EngineError(f"kind could not make the cluster:\n{tail(self.log)}\n  log: {self.log}")

    def _network(self) -> None:
        # One that kind would make has a bridge whose name tells nobody whose it is.
        self._remove_network()
        self.engine.run(
            "network",
            "create",
            "--driver",
            "bridge",
            "--opt",
            f"com.docker.network.bridge.name={BRIDGE}",
            "--label",
            f"part-of={NAME}",
            NAME,
        )

    def _remove_network(self) -> None:
        if self.engine.run("network", "ls", "--filter", f"name=^{NAME}$", "--format", "{{.Name}}"):
            self.engine.run("network", "rm", NAME)

    def delete(self) -> bool:
        """Delete cluster, network and kubeconfig entry; whether there was a cluster.

        Raises EngineError when the engine refuses.
        """
        had = bool(self.nodes())
        ended = self._run("delete", "cluster", "--name", NAME)
        if ended.returncode:
            raise EngineError(f"kind could not delete the cluster: {ended.stderr.strip()}")
        self._remove_network()
        self.kubeconfig.unlink(missing_ok=True)
        return had

    def execute(self, node: str, *words: str, stdin: bytes | None = None) -> str:
        """Run a command in a node's container."""
        return self.engine.run("exec", *(("-i",) if stdin is not None else ()), node, *words, stdin=stdin)

    def images_on(self, node: str) -> set[str]:
        """Names of the images that a node's containerd holds."""
        listed = self.execute(node, "ctr", "--namespace", "k8s.io", "images", "ls", "--quiet").splitlines()
        # The engine's short names are stored as those of the default registry.
        return {name.rpartition("/library/")[2] for name in listed}

    def load(self, tags: Iterable[str], console: Console) -> None:
        """Bring every node the images that it lacks, straight from the engine: no archive on disk, shared layers once.

        Raises EngineError when an import fails.
        """
        wanted = set(tags)
        for node in self.nodes():
            if lacking := sorted(wanted - self.images_on(node)):
                with console.step(f"load {len(lacking)} images into {node}", expected_s=60):
                    self._load(node, lacking)

    def _load(self, node: str, tags: Sequence[str]) -> None:
        into = ("exec", "-i", node, "ctr", "-n", "k8s.io", "images", "import", "--all-platforms", "--digests", "-")
        with subprocess.Popen(self.engine.command("save", *tags), stdout=subprocess.PIPE) as saving:
            to = self.engine.command(*into)
            loading = subprocess.run(to, stdin=saving.stdout, capture_output=True, check=False)
        if saving.returncode or loading.returncode:
            said = loading.stderr.decode(errors="replace").strip()
            raise EngineError(f"images were not loaded into {node}: {said}")


def configuration(nodes: int, *, published: bool = False) -> dict[str, Any]:
    """Return kind's configuration: one control plane that also takes pods, and `nodes - 1` workers; a pure function.

    `published` is for kind's own node image, which brings its pod network and images under their usual names.
    """
    kubelet = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "failCgroupV1": False,
        "maxOpenFiles": 20000,
        # The other must be what the image's containerd does; kind's own does as systemd wants, which is kind's default.
        **({} if published else {"cgroupDriver": "cgroupfs"}),
    }
    cluster = {
        # Without a version: it is merged into whichever version kind writes.
        "kind": "ClusterConfiguration",
        "imageRepository": LOCAL,
        "etcd": {"local": {"imageTag": ETCD}},
        "dns": {"imageTag": f"v{COREDNS}"},
    }
    patches = [yaml.safe_dump(kubelet), *([] if published else [yaml.safe_dump(cluster)])]
    # With workers beside it, it would take no pods, and a driver whose node fails needs another one. A single node is
    # opened by kind itself, which fails when that was done already.
    untainted = {"kind": "InitConfiguration", "nodeRegistration": {"taints": []}}
    opened = [yaml.safe_dump(untainted)] if nodes > 1 else []
    first: dict[str, Any] = {
        "role": "control-plane",
        "kubeadmConfigPatches": [*patches, *opened],
        "extraPortMappings": [
            {"containerPort": inside, "hostPort": outside, "listenAddress": "127.0.0.1", "protocol": "TCP"}
            for outside, inside in PORTS.items()
        ],
    }
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {
            "apiServerAddress": "127.0.0.1",
            "apiServerPort": API_PORT,
            "disableDefaultCNI": not published,
            "kubeProxyMode": "iptables",
            "podSubnet": POD_RANGE,
            "serviceSubnet": SERVICE_RANGE,
        },
        "nodes": [first, *({"role": "worker", "kubeadmConfigPatches": patches[:1]} for _ in range(nodes - 1))],
    }


def pod_network(pod_range: str) -> str:
    """Write the pod network of one node: a bridge with addresses from that node's own range; a pure function."""
    plugins = [
        {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": pod_range}]], "routes": [{"dst": "0.0.0.0/0"}]},
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}, indent=1)
