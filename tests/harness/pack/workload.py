"""The workload of a recorded run: what generates its records again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Self

from tests.harness.controls.names import EVERY
from tests.harness.controls.shape import shape_of
from tests.harness.pack.references import Plan, objects
from tests.harness.subject import PLACES, seeded
from tests.harness.workload.bounds import Bounded
from tests.harness.workload.errors import InputError
from tests.harness.workload.pacing import Pace
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.shape import Shape

_SAMPLE = 200
"""First sends that tell whether a workload is the one that was sent."""


@dataclass(frozen=True)
class RecordedWorkload:
    """A seeded stream, and the topic that it was sent to.

    Attributes:
        seed: of the stream.
        shape: likewise.
        places: of the bounds in it.
        topic: that it was sent to.
        partitions: of the topic.
    """

    seed: int
    shape: Shape
    places: tuple[float, ...]
    topic: str
    partitions: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read what `document` wrote; raises TypeError, KeyError, InputError where it is none of it."""
        shape = dict(document["shape"])
        shape |= {"pace": Pace(**shape["pace"]), "bursts": tuple(shape["bursts"])}
        return cls(**{**document, "shape": Shape(**shape), "places": tuple(document["places"])})

    @property
    def document(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)

    @property
    def plan(self) -> Plan:
        """Its records, as what the lines of `sent.jsonl` refer to."""
        return Plan(Bounded(Seeded(self.seed, self.shape), self.places), self.topic, self.partitions)


def workload_of(manifest: Mapping[str, Any], sent: Iterable[bytes]) -> RecordedWorkload | None:
    """Find what was sent; None where it is no seeded stream of the harness, or none that is known.

    Args:
        manifest: of the run, or of a control.
        sent: lines of `sent.jsonl`.
    """
    sends = [row for _, row in objects(sent) if isinstance(row.get("n"), int) and isinstance(row.get("partition"), int)]
    seed, topic = manifest.get("seed"), next((row.get("topic") for row in sends), None)
    if not isinstance(seed, int) or not isinstance(topic, str):
        return None
    partitions = 1 + max(row["partition"] for row in sends)
    for shape, places in _candidates(manifest, sends):
        found = RecordedWorkload(seed, shape, places, topic, partitions)
        if _matches(Bounded(Seeded(seed, shape), places), sends):
            return found
    return None


def _candidates(manifest: Mapping[str, Any], sends: list[dict[str, Any]]) -> Iterable[tuple[Shape, tuple[float, ...]]]:
    control = next((one for one in EVERY if one.name == manifest.get("control")), None)
    if control is not None:
        yield shape_of(control), ()
        return
    workload, settings = manifest.get("workload"), manifest.get("settings")
    if not isinstance(workload, dict) or workload.get("kind") != "seeded" or not isinstance(settings, dict):
        return
    # The manifest does not say over how many minutes of event time; the sends do.
    times = [row["event_time_ms"] for row in sends if row.get("kind") == "fresh" and isinstance(row.get("event_time_ms"), int)]
    minutes = max((-(-(time - Shape().first_ms) // 60_000) for time in times), default=1)
    for one in (minutes, minutes + 1, minutes - 1):
        for places in (PLACES, ()):
            try:
                subject = seeded(manifest["seed"], workload["sent"], one, payload_bytes=int(settings.get("payload_bytes", 0)), places=places)
            except (InputError, TypeError, ValueError):
                continue
            assert isinstance(subject.source, Bounded)
            yield subject.source.stream.shape, places


def _matches(records: Bounded, sends: list[dict[str, Any]]) -> bool:
    first = {row["n"]: row.get("crc") for row in islice(sends, _SAMPLE)}
    planned = {record.n: record.crc for record in islice(records, max(first) + 1)}
    return planned.items() >= first.items()
