"""Volumes of the platform's StatefulSets: those that are there, and what they cannot be changed to.

A StatefulSet's claims are fixed when it is made. Their sizes are compared with the claims themselves, which an operator
can let grow; a class that is to make new ones has to be there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from infra.components import kafka, monitoring, object_store, result_store
from infra.settings import Settings
from infra.values.common import Storage

Find = Callable[[str], dict[str, Any] | None]
"""An object of the cluster by path, None only when it is not there."""
ANEW: Final = "set it back, or back up, destroy the stack and deploy anew"
CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_NAME: Final = re.compile(r"data-(?P<set>.+)-(?P<ordinal>\d+)")


@dataclass(frozen=True)
class Claim:
    """A claim that is there; `ordinal` is that of its pod, and an unbound one has nothing in it yet."""

    name: str
    set: str
    ordinal: int
    size: str
    storage_class: str
    bound: bool


def claims(namespace: str, find: Find) -> list[Claim]:
    """Return the claims of StatefulSets in a namespace, in order."""
    found = []
    for one in (find(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims") or {}).get("items") or []:
        if named := _NAME.fullmatch(one["metadata"]["name"]):
            spec = one["spec"]
            found.append(
                Claim(
                    named[0],
                    named["set"],
                    int(named["ordinal"]),
                    str(spec["resources"]["requests"]["storage"]),
                    spec.get("storageClassName") or "",
                    bool(spec.get("volumeName")),
                )
            )
    return sorted(found, key=lambda claim: (claim.set, claim.ordinal))


def list_volumes(settings: Settings) -> Iterator[tuple[str, str, Storage]]:
    """Yield section, StatefulSet and storage of everything that makes volumes."""
    if (broker := kafka.values(settings)) is not None:
        yield from (
            ("kafka", name, broker.storage) for name in ("kafka", "kafka-controller")[: 1 + (broker.controllers > 0)]
        )
    if (store := object_store.values(settings)) is not None:
        yield "object_store", "minio", store.storage
    if (results := result_store.values(settings)) is not None:
        yield "result_store", "postgres", results.storage
    if (watch := monitoring.values(settings)) is not None and watch.server:
        yield "monitoring", "prometheus", watch.storage


def wrong_volumes(settings: Settings, there: list[Claim], find: Find) -> Iterator[str]:
    """Yield a line per claim that is not what is wanted, and for a class that would make none."""
    classes = {one["metadata"]["name"]: one for one in (find(CLASSES) or {}).get("items") or []}
    made = {claim.set for claim in there}
    if any(name not in made for _, name, _ in list_volumes(settings)):
        yield from _no_class(settings.storage.storage_class, classes)
    for section, name, storage in list_volumes(settings):
        for claim in there:
            if claim.set == name:
                yield from _wrong(settings.namespace, section, claim, storage, classes)


def _no_class(named: str | None, classes: Mapping[str, Any]) -> Iterator[str]:
    known = ", ".join(sorted(classes)) or "none"
    mended = "name one of these" if classes else "make one first"
    if named is not None and named not in classes:
        yield f"storage.storage_class: the cluster has no class {named!r} (there: {known}); {mended}"
    defaults = [one for one in classes.values() if (one["metadata"].get("annotations") or {}).get(DEFAULT) == "true"]
    if named is None and not defaults:
        yield f"storage.storage_class: the cluster has no default class (there: {known}); {mended}"


def _wrong(namespace: str, section: str, claim: Claim, storage: Storage, classes: Mapping[str, Any]) -> Iterator[str]:
    size = f"{section}.storage_size: {claim.name} is there with {claim.size}, got {storage.size}; "
    mended = ANEW
    if not claim.bound:
        mended = (
            f"nothing is in it yet: kubectl -n {namespace} delete statefulset/{claim.set} pvc/{claim.name}, then "
            "pulumi up --refresh"
        )
    if storage.storage_class not in (None, claim.storage_class):
        yield (
            f"storage.storage_class: {claim.name} is there with class {claim.storage_class or 'none'!r}, which cannot "
            f"be changed, got {storage.storage_class!r}; {mended}"
        )
    elif amount(storage.size) < amount(claim.size):
        yield size + (f"a volume cannot shrink: {mended}" if claim.bound else mended)
    elif amount(storage.size) > amount(claim.size):
        growing = claim.bound and (classes.get(claim.storage_class) or {}).get("allowVolumeExpansion")
        patch = f'{{"spec":{{"resources":{{"requests":{{"storage":"{storage.size}"}}}}}}}}'
        yield size + (
            f"its class lets it grow: kubectl -n {namespace} patch pvc {claim.name} -p '{patch}', then the same again"
            if growing
            else mended
        )


def amount(quantity: str) -> Decimal:
    """Return a quantity as a number: the cluster writes `8192Mi` as `8Gi`."""
    parse: Any = parse_quantity  # which has no types
    return Decimal(parse(quantity))
