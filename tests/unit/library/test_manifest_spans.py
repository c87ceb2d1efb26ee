"""Manifests in spans: told, compared with and refused as those beside them (R9)."""

from __future__ import annotations

import pytest

from effectively_once.errors import SinkError
from effectively_once.ledger.objects import Get
from effectively_once.sinks import manifest_span
from effectively_once.sinks.manifest_span import bounds_of, decode, encode
from effectively_once.sinks.publish import Published
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.library.test_manifests import LAYOUT, PARTS, sink

FIELDS = {"files": [], "rows": 0, "digest": ""}


def spans(monkeypatch: pytest.MonkeyPatch, compacted: list[tuple[int, int]]) -> MemoryStore:
    """Six epochs, each of a generation as its number; the manifests of some are in spans and nowhere else."""
    monkeypatch.setattr(manifest_span, "EPOCHS", 2)
    store = MemoryStore()
    for epoch in range(6):
        sink(store).publish(epoch, epoch, PARTS[epoch % 3])
    for bounds in compacted:
        manifests = {epoch: sink(store).manifest(epoch) or {} for epoch in bounds}
        store.objects[LAYOUT.manifests("raw", *bounds)] = encode(manifests)
        for epoch in bounds:
            del store.objects[LAYOUT.manifest("raw", epoch)]
    return store


@pytest.mark.parametrize("spanned", [False, True])
@pytest.mark.parametrize(
    ("last", "first", "epochs"), [(5, 0, [5, 4, 3, 2, 1, 0]), (5, 2, [5, 4, 3, 2]), (3, 3, [3]), (2, 3, [])]
)
def test_manifests_are_told_newest_first_from_spans_or_beside_them(
    last: int, first: int, epochs: list[int], spanned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = spans(monkeypatch, [(0, 1), (2, 3)] if spanned else [])
    shown = [*sink(store).newest_first(last, first)]
    assert [one.epoch for one in shown] == epochs
    assert [one.manifest and one.manifest["generation"] for one in shown] == epochs
    in_span = [one.key == LAYOUT.manifests("raw", *bounds_of(one.epoch)) for one in shown]
    assert in_span == [spanned and epoch < 4 for epoch in epochs]


@pytest.mark.parametrize("gone", [5, 3, 2, 0])
def test_nothing_is_told_behind_a_manifest_that_is_gone(gone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = spans(monkeypatch, [])
    del store.objects[LAYOUT.manifest("raw", gone)]
    shown = [*sink(store).newest_first(5, 0)]
    assert [one.epoch for one in shown] == [*range(5, gone - 1, -1)]
    assert [one.epoch for one in shown if one.manifest is None] == [gone]


def test_a_repeat_of_an_epoch_in_a_span_is_compared_with_it_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = spans(monkeypatch, [(2, 3)])
    for epoch in (2, 4):
        assert sink(store).publish(epoch, 9, PARTS[epoch % 3])[1] is Published.BEFORE
    with pytest.raises(SinkError, match="epoch 3 is published with digest"):
        sink(store).publish(3, 9, PARTS[2])
    for epoch in (2, 3):
        shown = sink(store).manifest(epoch)
        assert shown is not None
        assert shown["generation"] == epoch


def test_a_span_is_asked_for_once_and_spares_a_thousand_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one epoch the manifest comes first: it may be deleted once its span is there, and never before."""
    store = spans(monkeypatch, [(2, 3)])
    of_two, one = LAYOUT.manifests("raw", 2, 3), sink(store)
    manifests = [LAYOUT.manifest("raw", epoch) for epoch in range(4)]
    for telling, asked in (
        (lambda: one.manifest(2), [manifests[2], of_two]),
        (lambda: one.manifest(3), []),
        (lambda: [*one.newest_first(3, 2)], []),
        (lambda: [*sink(store).newest_first(3, 2)], [of_two]),
        (
            lambda: [*one.newest_first(1, 0)],
            [LAYOUT.manifests("raw", 0, 1), manifests[1], manifests[0], LAYOUT.manifests("raw", 0, 1)],
        ),
    ):
        store.requests.clear()
        assert telling()
        assert [request.key for request in store.requests if isinstance(request, Get)] == asked


def test_a_span_may_hold_spaces() -> None:
    manifests = {epoch: {"epoch": epoch, "publication": "by me", **FIELDS} for epoch in (2, 3)}
    assert decode(encode(manifests), (2, 3), "here") == manifests
