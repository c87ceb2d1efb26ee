"""The payment service as a pod beside a pipeline in pods: its own files, run by the Python of the pipeline's image."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from infra.embedded.ports import HOST
from infra.toolchain.prepare import CHECKOUT
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.rendering import RUN_LABEL, Object
from tests.harness.adapters.tunnel import Far, Tunnel
from tests.harness.payments.mischief import Mischief
from tests.harness.run_directory import write_atomically

PORT, START_S, ANSWER_S = 8080, 120.0, 10.0
AT, DATA, MODULE = "/service", "/data", "tests.harness.payments.service"
PATH = f"{AT}:/opt/effectively-once/packages"
FILES = (
    "infra/__init__.py", "infra/embedded/__init__.py", "infra/embedded/ports.py",
    "tests/__init__.py", "tests/harness/__init__.py", "tests/harness/evidence.py",
    *(f"tests/harness/payments/{name}.py" for name in ("__init__", "book", "journal", "mischief", "service")),
)  # fmt: skip
"""All that the service imports of this checkout."""


@dataclass
class PodPayments:
    """One service with accounts of its own, for one pipeline of a run.

    Attributes:
        cluster: the namespace of the pipeline.
        name: of its pod.
        run: label of everything that belongs to the run, which deletes it.
        image: of the pipeline; its Python and packages are taken.
        journal: file of this machine that `keep` writes.
        cards: how many there are.
        mischief: which calls go wrong.
    """

    cluster: Cluster
    name: str
    run: str
    image: str
    journal: Path
    cards: int
    mischief: Mischief
    _tunnel: Tunnel = field(init=False)
    _ip: str = ""

    def __post_init__(self) -> None:
        self._tunnel = Tunnel(self._dial)

    @property
    def inside(self) -> str:
        """Base URL, as pods reach it."""
        return f"http://{self._ip}:{PORT}"

    @property
    def address(self) -> str:
        """Base URL, as this machine reaches it."""
        return f"http://{HOST}:{self._tunnel.port}"

    def start(self) -> None:
        """Start it, and return when it answers. Raises ClusterTimeoutError."""
        self.cluster.apply(objects(self.name, self.run, self.image, self.cards, self.mischief))
        self._tunnel.start()
        self.cluster.wait_for(
            f"pod {self.name}", self._answers, START_S, lambda: [self._status(), self._tunnel.trouble]
        )

    def keep(self) -> None:
        """Write the journal as it is now. Raises ClusterTimeoutError: the service does not tell it."""
        write_atomically(self.journal, self._asked("/journal"))

    def stop(self) -> None:
        """End it, with what led to it. Safe to repeat."""
        self._tunnel.stop()
        self.cluster.delete_labelled(f"{RUN_LABEL}={self.run},{NAME}={self.name}")

    def _answers(self) -> bool:
        self._ip = str(self._status().get("podIP") or "")
        with suppress(ClusterTimeoutError):
            return bool(self._ip and self._asked("/cards"))
        return False

    def _asked(self, path: str) -> bytes:
        try:
            with urllib3.PoolManager(retries=False, timeout=ANSWER_S) as http:
                answer = http.request("GET", self.address + path)
        except urllib3.exceptions.HTTPError as error:
            raise ClusterTimeoutError(f"pod {self.name} does not answer: {error} {self._tunnel.trouble}") from error
        if answer.status != 200:
            raise ClusterTimeoutError(f"pod {self.name} answers {path} with {answer.status}: {answer.data[:200]!r}")
        content: bytes = answer.data
        return content

    def _status(self) -> dict[str, Any]:
        found = self.cluster.pods(f"{RUN_LABEL}={self.run},{NAME}={self.name}")
        status: dict[str, Any] = found[0].get("status") or {} if found else {}
        return status

    def _dial(self) -> Far:
        return self.cluster.dial(self.name, PORT)


NAME = "app.kubernetes.io/name"


def objects(name: str, run: str, image: str, cards: int, mischief: Mischief) -> list[Object]:
    """Its files as a ConfigMap, and the pod."""
    labels = {NAME: name, RUN_LABEL: run}
    words = {"host": "0.0.0.0", "port": PORT, "journal": f"{DATA}/journal.jsonl", "cards": cards,  # noqa: S104
             "seed": mischief.seed, "late": mischief.late, "unavailable": mischief.unavailable}  # fmt: skip
    keys = {path.replace("/", "."): path for path in FILES}
    content = {key: (CHECKOUT / path).read_text(encoding="utf-8") for key, path in keys.items()}
    container = {
        "name": "payments", "image": image, "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/tini", "--", "python3", "-m", MODULE],
        "args": [word for option, value in words.items() for word in (f"--{option}", str(value))],
        "env": [{"name": "PYTHONPATH", "value": PATH}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "service", "mountPath": AT, "readOnly": True}, {"name": "data", "mountPath": DATA},
        ],
    }  # fmt: skip
    items = [{"key": key, "path": path} for key, path in keys.items()]
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": False, "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1, "containers": [container],
            "securityContext": {
                "runAsNonRoot": True, "runAsUser": 185, "runAsGroup": 185, "fsGroup": 185,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [
                {"name": "service", "configMap": {"name": name, "items": items}}, {"name": "data", "emptyDir": {}},
            ],
        },
    }  # fmt: skip
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": content}
    return [files, pod]
