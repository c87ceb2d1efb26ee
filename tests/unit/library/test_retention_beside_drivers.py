"""Retention beside two drivers, in every order and whatever the age of objects: nothing that a driver needs goes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest

from effectively_once.ledger.objects import Delete, ObjectStore
from effectively_once.operate.retention.leftovers import Sort, Staged, View
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.manifest_span import Manifest
from effectively_once.sinks.reader import files_of
from tests.model.asked import asking
from tests.model.at import LAYOUT, At
from tests.model.beside import explored_beside
from tests.model.explore import Explored
from tests.model.rules import Pipeline
from tests.model.world import Names, Step

SHORT = (("a", 0), ("b", 0), ("a", 0))
# Two deltas are merged in the third epoch; in the fifth the floor passes them.
STATE = Pipeline(("kafka",), (("a", 0), ("b", 0), ("c", 3), ("b", 0), ("c", 3)), (1, 2), recorded=False, fan=2)
RECORDED, FILES = Pipeline(("kafka",), SHORT, (1, 2)), Pipeline(("files",), SHORT, (1, 2))
Judge = Callable[[View, str], Sort | Staged | object | None]


def _tidy(judge: Judge, at: At) -> Generator[Step, Any, At]:
    """Do what Retention does, an age left out: one look at head, a listing, another look, deletions."""
    first = yield from asking(lambda store: View.of(LAYOUT, store))
    names = yield Names(f"{LAYOUT.pipeline}/")
    found = []
    for name in names:
        if not any(name.startswith(prefix) for prefix in (*first.prefixes, f"{LAYOUT.pipeline}/files/data/")):
            continue
        match judge(first, name):
            case Sort():
                found.append(name)
            case Staged() as staged:
                manifest = yield from asking(partial(_manifest, staged))
                if manifest is not None and name not in files_of(manifest, name):
                    found.append(name)
    again = yield from asking(lambda store: View.of(LAYOUT, store))
    assert first.before(again)
    for name in found:
        if not again.needs(name):
            yield Delete(name)
    return At(phase="done")


def _manifest(staged: Staged, store: ObjectStore) -> Manifest | None:
    return ManifestSink(store, LAYOUT, staged.sink).manifest(staged.epoch)


def _explored(pipeline: Pipeline, judge: Judge = View.judge) -> Explored:
    return explored_beside(pipeline, lambda at: _tidy(judge, at))


@pytest.mark.parametrize(
    ("pipeline", "states", "deletes"),
    [
        pytest.param(STATE, 550_000, "model/deltas/ids/N/N-N.arrow", marks=pytest.mark.deep),
        (RECORDED, 108_000, "model/recorded/draw/N/N.arrow"),
        pytest.param(FILES, 190_000, "model/files/data/N-N-A.parquet", marks=pytest.mark.deep),
    ],
)
def test_drivers_publish_every_record_once_whatever_retention_deletes(
    pipeline: Pipeline, states: int, deletes: str
) -> None:
    found = _explored(pipeline)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"
    assert f"Delete {deletes} -> Gone" in found.met, "the exploration is vacuous"


def _unnamed(view: View, name: str) -> Sort | Staged | object | None:
    """Any delta or span that head does not name."""
    return Sort.DELTAS if "/deltas/" in name and name not in view.named else view.judge(name)


def _unnamed_span(view: View, name: str) -> Sort | Staged | object | None:
    """Any span that head does not name."""
    return Sort.DELTAS if name.endswith("000-000000001.arrow") and name not in view.named else view.judge(name)


@pytest.mark.parametrize("judge", [_unnamed, _unnamed_span])
def test_to_delete_whatever_head_does_not_name_leaves_a_hole(judge: Judge) -> None:
    found = _explored(STATE, judge)
    assert found.hole is not None
    assert "a delta that the chain names is missing" in found.hole
