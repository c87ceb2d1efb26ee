"""Compaction beside two drivers, in every order of requests: what is shown is shown once, and stays (R9)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from effectively_once.ledger import chain
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.operate.retention.compaction import delete_beside, find_groups, write_span
from effectively_once.sinks import manifest_span
from effectively_once.sinks.manifest_span import Bounds
from tests.model.at import LAYOUT, At
from tests.model.beside import explored_beside
from tests.model.explore import Explored
from tests.model.outputs import FILES
from tests.model.rules import Pipeline
from tests.model.world import Names, Step, World

# The floor passes the first epoch when the fourth is declared.
PIPELINE = Pipeline(("files",), (("a", 0), ("b", 3), ("a", 0), ("c", 6)), (1, 1), recorded=False)
FOLDER = f"{LAYOUT.pipeline}/{FILES}/manifests/"
Group = Callable[[Layout, str, Head, Bounds], Generator[Any, Any, object]]


@pytest.fixture(autouse=True, scope="module")
def _one_epoch() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_span, "EPOCHS", 1)
        yield


def _product(layout: Layout, sink: str, head: Head, bounds: Bounds) -> Generator[Any, Any, object]:
    if (yield from write_span(layout, sink, head, bounds)):
        yield from delete_beside(layout, sink, bounds)
    return None


def _deleted_first(layout: Layout, sink: str, head: Head, bounds: Bounds) -> Generator[Any, Any, object]:
    yield from delete_beside(layout, sink, bounds)
    return (yield from write_span(layout, sink, head, bounds))


def _compact(group: Group, at: At) -> Generator[Step, Any, At]:
    """Do what Compaction does, once: a look at head, a listing, then span after span."""
    head = yield from chain.there(LAYOUT)
    if head is not None:
        names = yield Names(FOLDER)
        for found in find_groups(names, LAYOUT, FILES, head):
            yield from group(LAYOUT, FILES, head, found.bounds)
    return replace(at, phase="done")


def _as_read(world: World) -> World:
    """The world with the manifests of spans in the place of those beside them: what readers take."""
    objects = dict(world.objects)
    for key, body in world.objects:
        if key.startswith(FOLDER) and "-" in key:
            del objects[key]
            for epoch, line in enumerate(body.split(b"\n"), start=int(key.removeprefix(FOLDER).split("-")[0])):
                objects[LAYOUT.manifest(FILES, epoch)] = line
    return replace(world, objects=tuple(sorted(objects.items())))


def _explored(group: Group) -> Explored:
    return explored_beside(PIPELINE, lambda at: _compact(group, at), _as_read)


@pytest.mark.deep
def test_what_is_shown_stays_whatever_compaction_does_beside_drivers() -> None:
    found = _explored(_product)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    for met in (
        "Put model/files/manifests/N-N.json -> Written",
        "Delete model/files/manifests/N.json -> Gone",
        "Get model/files/manifests/N-N.json -> Found",
    ):
        assert met in found.met, "the exploration is vacuous"
    assert found.states >= 128_000, "the exploration was cut short"


def test_to_delete_before_the_span_is_there_leaves_a_hole() -> None:
    found = _explored(_deleted_first)
    assert found.hole is not None
    assert "not visible any more" in found.hole
