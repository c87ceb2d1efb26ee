"""What a node cannot get for a pod, an image or a Secret, told while somebody still waits for that pod.

Pulumi waits for pods to be ready, ten minutes and more, and says nothing of why they are not. Where waiting longer
cannot help, the update is given up. A Secret may come: others make it, perhaps at the same time.
"""

from __future__ import annotations

import contextvars
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from infra.cluster.api import ClusterError, Reader
from infra.operate.objects import PART_OF, PROJECT, Pod, Waiting
from infra.operate.reasons import CONFIG, PULL

EVERY_S = 3.0
OURS = f"{PROJECT}-"
"""How the names of the images begin that are built here."""
_NEVER = {"ErrImageNeverPull", "InvalidImageName"}
_ANSWERED = re.compile(r"(?i)not found|manifest unknown|denied|unauthorized|forbidden|authentication required")
"""A registry's own word that it has no such image, or none for this cluster; anything else may be over in a moment."""
_LACKS = re.compile(r'secret "[^"]+" not found|couldn\'t find key \S+ in Secret \S+')
"""A kubelet's word of what a variable is to come from; that its cache is not filled yet is over in a moment."""


def unpullable(pods: Iterable[Pod]) -> Iterator[tuple[str, str]]:
    """Yield an image that cannot be pulled, and a line: who waits for it, why, and what mends it."""
    for pod in pods:
        for image, waiting in _waiting(pod, PULL):
            why = " ".join(waiting.message.split())[:200]
            told_so = f"{waiting.reason}{f' ({why})' if why else ''}"
            yield image, f"{_name(pod)} waits for image {image}: {told_so}. {_remedy(image)}"


def lacking(pods: Iterable[Pod]) -> Iterator[tuple[str, str]]:
    """Yield what of a Secret is not there, and a line: who waits for it, and what mends it."""
    for pod in pods:
        for _, waiting in _waiting(pod, CONFIG):
            if found := _LACKS.search(waiting.message):
                where = f"`pipelines.<name>.secrets` of {pod.application}" if pod.application else "the setting"
                yield (
                    found[0],
                    f"{_name(pod)} does not start: {waiting.reason} ({found[0]}). Put the Secret there with that key, "
                    f"and the pod starts by itself; or correct {where} that names it",
                )


def _name(pod: Pod) -> str:
    return f"pod {pod.metadata.namespace}/{pod.metadata.name}"


def hopeless(pods: Iterable[Pod], before: Collection[str]) -> Iterator[str]:
    """Yield the images that no waiting will bring, of pods whose uid is not among those that were there `before`.

    One that was there may wait for the kubelet's next try at what has been mended by now.
    """
    for pod in pods:
        if pod.metadata.uid not in before:
            yield from (image for image, waiting in _waiting(pod, PULL) if _never_comes(image, waiting))


def _waiting(pod: Pod, reasons: Collection[str]) -> Iterator[tuple[str, Waiting]]:
    """Yield image and state of each container that waits for one of these reasons."""
    if pod.metadata.deletion_timestamp:
        return
    for one in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if one.state.waiting is not None and one.state.waiting.reason in reasons:
            yield one.image, one.state.waiting


def _never_comes(image: str, waiting: Waiting) -> bool:
    # Ours without a registry is nowhere but in a cluster's nodes, into which `make up` loads it.
    return waiting.reason in _NEVER or image.startswith(OURS) or _ANSWERED.search(waiting.message) is not None


def _remedy(image: str) -> str:
    if image.rpartition("/")[2].startswith(OURS):
        return (
            "On the cluster of this machine: `make up` builds and loads it. On another: `make images "
            "PUSH=registry/path/`, and have the references deployed that it writes"
        )
    return "Correct its name, or `image_pull_secrets`, and run the same command again"


def pods_of(reader: Reader, namespaces: Sequence[str] | None) -> list[Pod]:
    """Return the project's pods in some namespaces, None for all. Raises ClusterError."""
    paths = [f"/api/v1/namespaces/{name}/pods" for name in namespaces] if namespaces else ["/api/v1/pods"]
    found = [reader.get(path, labelSelector=f"{PART_OF}={PROJECT}") for path in paths]
    return [Pod.model_validate(item) for one in found for item in one.get("items") or ()]


def watch(
    reader: Callable[[], Reader],
    namespaces: Sequence[str] | None,
    say: Callable[[str], object],
    every_s: float = EVERY_S,
    *,
    give_up: Callable[[str], object] | None = None,
    before: Collection[str] = (),
) -> threading.Event:
    """Look every few seconds, and say once of each image and Secret that a pod cannot get it, until the event is set.

    With `give_up` the first one that is hopeless is handed over to that instead, and nothing is looked at any more.
    A cluster that does not answer, or is not there yet, is asked again: whoever waits for it says so itself.
    """
    ended = threading.Event()

    def look() -> None:
        known: set[str] = set()
        held: Reader | None = None
        while not ended.wait(every_s):
            try:
                held = held or reader()
                pods = pods_of(held, namespaces)
            except ClusterError:
                continue
            lost = set(hopeless(pods, before)) if give_up else set()
            for what, line in (*unpullable(pods), *lacking(pods)):
                if give_up and what in lost:
                    give_up(line)
                    return
                if what not in known:
                    known.add(what)
                    say(line)

    # Pulumi keeps what its log needs in the context.
    threading.Thread(target=contextvars.copy_context().run, args=(look,), daemon=True).start()
    return ended


@contextmanager
def watching(
    reader: Callable[[], Reader],
    namespaces: Sequence[str] | None,
    say: Callable[[str], object],
    every_s: float = EVERY_S,
) -> Iterator[None]:
    """See `watch`; it ends with what is done meanwhile."""
    ended = watch(reader, namespaces, say, every_s)
    try:
        yield
    finally:
        ended.set()
