"""Spans of manifests: one object that holds the manifests of 1,000 epochs, so that a sink of years has few (R8, R9).

A span is created once, of manifests that were created once, between bounds that arithmetic gives: whoever makes it
makes the same. It is made when no epoch of it is published or asked for as a progress mark any more, and then it is the
word on its epochs: a manifest beside it is ignored by everybody. So the manifests may go, and a driver that was
replaced and creates one of them again shows nothing by it.

Readers ask for the manifest first and for the span last. A manifest that was read while there was no span is the one
that was published, for none is deleted before its span is there; and one that is not there, although its epoch is
recorded, is in the span. The other way round a span could come, and the manifest go, between the two questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from effectively_once.errors import SinkError
from effectively_once.ledger import checksum
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Step, body_of

EPOCHS = 1000
"""Epochs of a span: some 260 KB, 17 a day at an epoch every 5 s. Never to change: objects are named by it."""

BEFORE_CHECKSUMS = {"epoch", "generation", "publication", "files", "rows", "digest", "bytes"}
"""Fields of a manifest that has no checksum."""

Manifest = Mapping[str, Any]
Bounds = tuple[int, int]
"""First and last epoch of a span."""


def bounds_of(epoch: int) -> Bounds:
    """Return the bounds of the span that an epoch belongs to."""
    first = epoch - epoch % EPOCHS
    return first, first + EPOCHS - 1


def allowed(head: Head, bounds: Bounds) -> bool:
    """Whether the span may be made: all of it is recorded, and below the floor (R9).

    The manifest of the last recorded epoch stays besides: it is the sink's progress mark (R10).
    """
    return bounds[1] < min(head.floor, head.last_recorded)


def encode(manifests: Mapping[int, Manifest]) -> bytes:
    """Return the content of the span: a manifest a line, in the order of epochs."""
    return b"\n".join(checksum.seal(dict(manifests[epoch])) for epoch in sorted(manifests))


def decode(body: bytes, bounds: Bounds, key: str) -> dict[int, Manifest]:
    """Return the manifests of a span by epoch. Raises SinkError when it is damaged."""
    lines = body.split(b"\n")
    if len(lines) != bounds[1] - bounds[0] + 1:
        raise _damage_error(f"a span of manifests does not hold epochs {bounds[0]} to {bounds[1]}", key)
    return {epoch: manifest_of(line, key, epoch) for epoch, line in enumerate(lines, start=bounds[0])}


def manifest_of(body: bytes, key: str, epoch: int | None = None) -> dict[str, Any]:
    """Parse a manifest. Raises SinkError when it is damaged, or not that of the epoch."""
    try:
        manifest, sealed = checksum.open_sealed(body)
        whole = {"files", "rows", "digest"} <= manifest.keys() and epoch in (None, manifest.get("epoch"))
        # One of before has no checksum; one whose checksum lost its name has a field that those had not.
        if whole and (sealed or manifest.keys() <= BEFORE_CHECKSUMS):
            return manifest
    except ValueError:
        pass
    raise _damage_error("a manifest is damaged" + ("" if epoch is None else f", that of epoch {epoch}"), key)


def read(layout: Layout, sink: str, bounds: Bounds) -> Step[dict[int, Manifest] | None]:
    """Return the manifests of a span, None where there is none. Raises SinkError when it is damaged."""
    key = layout.manifests(sink, *bounds)
    body = yield from body_of(key)
    return None if body is None else decode(body, bounds, key)


def _damage_error(what: str, key: str) -> SinkError:
    return SinkError(what, key, "Restore it from the bucket's versions or a backup.")
