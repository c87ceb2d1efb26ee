"""The rules, a line each: what is refused, how a preview finds it, and how the API server does.

Two judges know each rule: a function that reads an object before it is deployed, and an expression (CEL) that the API
server evaluates whoever changes it. tests/infra/test_rules.py gives both the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from infra.policy.listeners import KAFKA, MINIO, PLAIN, POSTGRES, plain_kafka, plain_minio, plain_postgres
from infra.policy.pods import NAME, Object, containers, pods
from infra.policy.restricted import violations
from infra.settings.field_types import DIGEST, TAG, is_pinned, is_tagged
from infra.settings.security import Security

DELETED: Final = "effectively-once/delete-volumes"
"""Annotation of a StatefulSet whose volumes go with it, as `storage.delete_volumes` says."""
COMPONENT: Final = "app.kubernetes.io/component"
DATA_PLANE: Final = {
    "kafka": {NAME: "kafka", COMPONENT: "broker"},
    "kafka-controller": {NAME: "kafka", COMPONENT: "controller"},
    "minio": {NAME: "minio"},
    "postgres": {NAME: "postgres"},
    "prometheus": {NAME: "monitoring"},
}
"""Labels of the StatefulSets that keep data, by name."""
_KEPT: Final = "object.spec.?persistentVolumeClaimRetentionPolicy.?{}.orValue('Retain') == 'Retain'"


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        message: what both judges say.
        breaks: yields what in an object breaks it, for a stack that asks for something; nothing for an object that it
            is not about.
        expression: of the API server; None where a label of the namespace refuses.
        asked: whether a stack wants it.

    """

    name: str
    message: str
    breaks: Callable[[Object, Security], Iterator[str]]
    expression: str | None = None
    asked: Callable[[Security], bool] = lambda _: True

    @property
    def validation(self) -> dict[str, str | None]:
        """What a ValidatingAdmissionPolicy says of it."""
        return {"expression": self.expression, "message": self.message}


def _privileges(one: Object, _: Security) -> Iterator[str]:
    for where, pod in pods(one):
        yield from (_at(where, line) for line in violations(pod))


def _images(one: Object, _: Security, fits: Callable[[str], bool]) -> Iterator[str]:
    for where, pod in pods(one):
        for container in containers(pod):
            if not fits(str(container.get("image"))):
                yield _at(where, f"{container['name']} runs {container.get('image')}")


def _gone_with_set(one: Object, _: Security) -> Iterator[str]:
    said = (one["metadata"].get("annotations") or {}).get(DELETED)
    if keeps_data(one) and _retention(one, "whenDeleted") != "Retain" and said != "true":
        yield f"whenDeleted is {_retention(one, 'whenDeleted')}"


def _gone_when_scaled(one: Object, _: Security) -> Iterator[str]:
    if keeps_data(one) and _retention(one, "whenScaled") != "Retain":
        yield f"whenScaled is {_retention(one, 'whenScaled')}"


def _retention(one: Object, when: str) -> str:
    return str((one["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(when, "Retain"))


def _at(where: str, line: str) -> str:
    return f"{where}: {line}" if where else line


def keeps_data(one: Object) -> bool:
    """Whether it is a StatefulSet of the data plane, by its labels as the API server sees it."""
    labels = (one["metadata"].get("labels") or {}).items()
    return one["kind"] == "StatefulSet" and any(each.items() <= labels for each in DATA_PLANE.values())


RESTRICTED: Final = Rule(
    "restricted", "pods keep the Pod Security Standard `restricted`: no privilege, nothing of the node", _privileges
)
IMAGES: Final = (
    Rule(
        "tagged-images",
        "an image has a digest, or a tag other than `latest`: what runs must not change under its name",
        partial(_images, fits=is_tagged),
        f"variables.images.all(i, i.matches('{DIGEST}') || (i.matches('{TAG}') && !i.endsWith(':latest')))",
    ),
    Rule(
        "pinned-images",
        "security.pinned_images asks for images by digest: `make images PUSH=` names them so",
        partial(_images, fits=is_pinned),
        f"variables.images.all(i, i.matches('{DIGEST}'))",
        lambda security: security.pinned_images,
    ),
)
VOLUMES: Final = (
    Rule(
        "volumes-kept",
        f"volumes would go with this set: keep them (whenDeleted: Retain), or annotate it {DELETED}=true",
        _gone_with_set,
        f"{_KEPT.format('whenDeleted')} || (has(object.metadata.annotations) && "
        f"object.metadata.annotations[?'{DELETED}'].orValue('') == 'true')",
    ),
    Rule(
        "volumes-kept-when-scaled",
        "volumes would go when this set is scaled down: keep them (whenScaled: Retain)",
        _gone_when_scaled,
        _KEPT.format("whenScaled"),
    ),
)
_SAID: Final = f"without it a chart says that connections are plain ({PLAIN}=true)"
LISTENERS: Final = (
    Rule("kafka-encrypted", f"security.kafka has every listener of Kafka encrypted; {_SAID}", plain_kafka, KAFKA),
    Rule(
        "postgres-encrypted",
        f"security.result_store has every connection to PostgreSQL encrypted; {_SAID}",
        plain_postgres,
        POSTGRES,
    ),
    Rule(
        "minio-encrypted",
        f"security.object_store has every connection to the object store encrypted; {_SAID}",
        plain_minio,
        MINIO,
    ),
)
RULES: Final = (RESTRICTED, *IMAGES, *VOLUMES, *LISTENERS)
"""Those that look at one object."""
OTHER_PODS: Final = "the PodDisruptionBudget of this name is for other pods: give it the selector of this set"
"""What the API server says of a budget that is there; of one that is not, it has words of its own."""
BUDGET: Final = "a StatefulSet that keeps data has a PodDisruptionBudget of its name, for its own pods"


def without_budget(objects: Iterable[Object]) -> Iterator[tuple[Object, str]]:
    """Yield StatefulSets of the data plane without their budget, with what is wrong; it takes a whole stack to see."""
    every = [*objects]
    budgets = {_place(one): _selected(one) for one in every if one["kind"] == "PodDisruptionBudget"}
    for one in filter(keeps_data, every):
        if _place(one) not in budgets:
            yield one, f"there is no budget {one['metadata']['name']}"
        elif budgets[_place(one)] != _selected(one):
            yield one, OTHER_PODS


def _place(one: Object) -> tuple[str | None, str]:
    return one["metadata"].get("namespace"), one["metadata"]["name"]


def _selected(one: Object) -> object:
    return one["spec"]["selector"].get("matchLabels")


def broken(one: Object, security: Security) -> dict[Rule, list[str]]:
    """Return the rules that an object breaks, with what breaks them."""
    found = {rule: [*rule.breaks(one, security)] for rule in RULES if rule.asked(security)}
    return {rule: lines for rule, lines in found.items() if lines}
