"""The API server of Kubernetes without a node: what it admits and refuses is its own word, and nothing runs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.embedded.ports import free_ports
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.go_tools import ETCD_TOOL, KUBERNETES_TOOL, build, is_built

READY_S = 90.0
Object = dict[str, Any]


def missing() -> str | None:
    """Say what is not built; None when both programs are."""
    cache = Cache(cache_root())
    absent = [tool.name for tool in (ETCD_TOOL, KUBERNETES_TOOL) if not is_built(cache, tool)]
    return f"not built yet: {', '.join(absent)}; `make tools ALL=1` does" if absent else None


@dataclass(frozen=True)
class ApiServer:
    """One that answers."""

    kubectl: Path
    kubeconfig: Path

    def run(self, *words: str, given: Object | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl, with an object on its standard input."""
        return subprocess.run(
            [self.kubectl, "--kubeconfig", self.kubeconfig, *words],
            input=None if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def apply(self, *objects: Object, namespace: str | None = None) -> None:
        """Make objects, as an administrator."""
        where = ("--namespace", namespace) if namespace else ()
        listed = {"apiVersion": "v1", "kind": "List", "items": [*objects]}
        done = self.run("apply", *where, "--filename", "-", given=listed)
        assert done.returncode == 0, done.stderr

    def refusal(self, user: str, *words: str, given: Object | None = None) -> str | None:
        """Return what is said against a command of some user; None when it is done."""
        done = self.run("--as", user, *words, given=given)
        return done.stderr.strip() if done.returncode else None


@contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """Start one on free ports, with its data in `folder`."""
    cache = Cache(cache_root())
    kubernetes, etcd = build(cache, KUBERNETES_TOOL), build(cache, ETCD_TOOL) / "etcd"
    store, peers, port = free_ports(3)
    key, public = folder / "sa.key", folder / "sa.pub"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
    (folder / "tokens.csv").write_text('admin,admin,admin,"system:masters"\n')
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(port)))
    url, peer = f"http://127.0.0.1:{store}", f"http://127.0.0.1:{peers}"
    with ExitStack() as running:
        _start(
            running,
            folder / "etcd.log",
            [
                etcd,
                f"--data-dir={folder / 'etcd'}",
                "--unsafe-no-fsync",
                f"--initial-cluster=default={peer}",
                f"--listen-client-urls={url}",
                f"--advertise-client-urls={url}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
            ],
        )
        _start(
            running,
            folder / "api.log",
            [
                kubernetes / "kube-apiserver",
                f"--etcd-servers={url}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={folder / 'certs'}",
                "--service-cluster-ip-range=10.99.0.0/24",
                "--service-account-issuer=https://test",
                f"--service-account-key-file={public}",
                f"--service-account-signing-key-file={key}",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--allow-privileged=true",
                # Nobody makes tokens here, and pods do not wait for one.
                "--disable-admission-plugins=ServiceAccount",
            ],
        )
        server = ApiServer(kubernetes / "kubectl", kubeconfig)
        until = time.monotonic() + READY_S
        while server.run("get", "--raw", "/readyz").returncode:
            assert time.monotonic() < until, (folder / "api.log").read_text()[-2000:]
            time.sleep(0.5)
        yield server


def _kubeconfig(port: int) -> Object:
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": "admin"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }


def _start(running: ExitStack, log: Path, words: Sequence[str | Path]) -> None:
    out = running.enter_context(log.open("wb"))
    process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
    running.callback(process.wait, 30)
    running.callback(process.kill)
