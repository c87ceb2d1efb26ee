"""The payment service as a pod beside a pipeline in pods: its own files, run by the Python of the pipeline's image."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from infra.toolchain.prepare import CHECKOUT
from tests.experiments.card_ledger.payments.mischief import Mischief
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.rendering import Object
from tests.harness.adapters.service_pod import PORT, ServicePod, pod
from tests.harness.run_directory import write_atomically

AT, DATA, MODULE = "/service", "/data", "tests.experiments.card_ledger.payments.service"
PATH = f"{AT}:/opt/effectively-once/packages"
FILES = (
    "infra/__init__.py",
    "infra/embedded/__init__.py",
    "infra/embedded/ports.py",
    "infra/errors.py",
    "tests/__init__.py",
    *(f"tests/harness/{name}.py" for name in ("__init__", "evidence", "schemas", "sinks", "wire")),
    "tests/experiments/__init__.py",
    "tests/experiments/card_ledger/__init__.py",
    *(
        f"tests/experiments/card_ledger/payments/{name}.py"
        for name in ("__init__", "book", "journal", "mischief", "service")
    ),
)
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
    service: ServicePod = field(init=False)

    def __post_init__(self) -> None:
        self.service = ServicePod(self.cluster, self.name, self.run)

    @property
    def inside(self) -> str:
        """Base URL, as pods reach it."""
        return self.service.inside

    @property
    def address(self) -> str:
        """Base URL, as this machine reaches it."""
        return self.service.address

    def start(self) -> None:
        """Start it, and return when it answers. Raises ClusterTimeoutError."""
        made = objects(self.name, self.service.labels, self.image, self.cards, self.mischief)
        self.service.start(made, lambda: bool(self._ask("/cards")))

    def keep(self) -> None:
        """Write the journal as it is now. Raises ClusterTimeoutError: the service does not tell it."""
        write_atomically(self.journal, self._ask("/journal"))

    def stop(self) -> None:
        """End it, with what led to it. Safe to repeat."""
        self.service.stop()

    def _ask(self, path: str) -> bytes:
        status, content = self.service.ask(path)
        if status != 200:
            raise ClusterTimeoutError(f"pod {self.name} answers {path} with {status}: {content[:200]!r}")
        return content


def objects(name: str, labels: dict[str, str], image: str, cards: int, mischief: Mischief) -> list[Object]:
    """Its files as a ConfigMap, and the pod."""
    words = {
        "host": "0.0.0.0",  # noqa: S104
        "port": PORT,
        "journal": f"{DATA}/journal.jsonl",
        "cards": cards,
        "seed": mischief.seed,
        "late": mischief.late,
        "unavailable": mischief.unavailable,
    }
    keys = {path.replace("/", "."): path for path in FILES}
    content = {key: (CHECKOUT / path).read_text(encoding="utf-8") for key, path in keys.items()}
    items = [{"key": key, "path": path} for key, path in keys.items()]
    container = {
        "image": image,
        "args": ["-m", MODULE, *(word for option, value in words.items() for word in (f"--{option}", str(value)))],
        "env": [{"name": "PYTHONPATH", "value": PATH}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "volumeMounts": [
            {"name": "service", "mountPath": AT, "readOnly": True},
            {"name": "data", "mountPath": DATA},
        ],
    }
    volumes = [{"name": "service", "configMap": {"name": name, "items": items}}, {"name": "data", "emptyDir": {}}]
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": content}
    return [files, pod(name, labels, container, volumes)]
