"""What a platform that is there cannot be changed to: refused by name before anything is changed.

Claims of a StatefulSet are fixed when it is made, so Pulumi would replace it; a Kafka quorum is fixed when its volumes
are formatted. Both would end in empty volumes or in a broker without its quorum. The cluster knows what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from infra.components import kafka, object_store, result_store
from infra.settings import Settings, SettingsError
from infra.values.common import Storage

_UNITS: Final = {"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)}
Find = Callable[[str], dict[str, Any] | None]
"""An object of the cluster by path, None only when it is not there."""
ANEW: Final = "set it back, or back up, destroy the stack and deploy anew"


def require_same(settings: Settings, find: Find) -> None:
    """Compare what is wanted with the StatefulSets that are there; what is not there is free to be anything.

    Raises SettingsError with a line per setting that cannot be changed.
    """
    wrong = [*_volumes(settings, find), *_quorum(settings, find)]
    if wrong:
        raise SettingsError(wrong)


def _volumes(settings: Settings, find: Find) -> Iterator[str]:
    charts = {
        "kafka": (kafka.values(settings), ("kafka", "kafka-controller")),
        "object_store": (object_store.values(settings), ("minio",)),
        "result_store": (result_store.values(settings), ("postgres",)),
    }
    for section, (chart, names) in charts.items():
        for name in names if chart is not None else ():
            assert chart is not None  # noqa: S101 - for the type checker
            found = _stateful_set(settings, find, name)
            for claim in found.get("volumeClaimTemplates") or [] if found else []:
                yield from _claim(section, name, claim.get("spec") or {}, chart.storage)


def _claim(section: str, name: str, there: dict[str, Any], wanted: Storage) -> Iterator[str]:
    size, kind = str(there["resources"]["requests"]["storage"]), there.get("storageClassName")
    if amount(size) != amount(wanted.size):
        yield (
            f"{section}.storage_size: volumes of {name} were made with {size}, which a StatefulSet cannot change, got "
            f"{wanted.size}; {ANEW}"
        )
    if kind != wanted.storage_class:
        yield (
            f"storage.storage_class: volumes of {name} were made with {kind or 'the default class'}, which a "
            f"StatefulSet cannot change, got {wanted.storage_class or 'the default class'}; {ANEW}"
        )


def _quorum(settings: Settings, find: Find) -> Iterator[str]:
    if settings.kafka.external is not None or (brokers := _stateful_set(settings, find, "kafka")) is None:
        return
    # One that was scaled to nothing is stopped, and has its volumes all the same.
    nodes = brokers.get("replicas") or settings.kafka.nodes
    apart = _stateful_set(settings, find, "kafka-controller")
    controllers = 0 if apart is None else apart.get("replicas") or settings.kafka.controllers
    for field, there, wanted in (
        ("nodes", nodes, settings.kafka.nodes),
        ("controllers", controllers, settings.kafka.controllers),
    ):
        if there != wanted:
            yield f"kafka.{field}: the quorum was formatted for {there}, got {wanted}; {ANEW}"


def _stateful_set(settings: Settings, find: Find, name: str) -> dict[str, Any] | None:
    """Return its `spec`, None when it is not there."""
    found = find(f"/apis/apps/v1/namespaces/{settings.namespace}/statefulsets/{name}")
    return None if found is None else dict(found["spec"])


def amount(quantity: str) -> float:
    """Return a quantity as a number: the cluster writes `8192Mi` as `8Gi`."""
    number = quantity.rstrip("kKmMGTPi")
    unit = quantity[len(number) :]
    return float(number) * (_BINARY[unit] if unit in _BINARY else _UNITS[unit])
