"""The workload of a recorded run: what generates its records again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, product
from typing import Any, Self, TypeAlias, TypeGuard

from tests.harness.controls.names import EVERY
from tests.harness.controls.shape import shape_of
from tests.harness.pack.references import Plan, objects
from tests.harness.subject import PLACES, Subject, seeded, unpaced
from tests.harness.workload.bounds import Bounded
from tests.harness.workload.errors import InputError
from tests.harness.workload.pacing import Pace
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.shape import Shape

Places: TypeAlias = tuple[float, ...]
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
    places: Places
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
    def stream(self) -> Bounded:
        """Its records, in sending order."""
        return Bounded(Seeded(self.seed, self.shape), self.places)

    @property
    def plan(self) -> Plan:
        """Its records, as what the lines of `sent.jsonl` refer to."""
        return Plan(self.stream, self.topic, self.partitions)

    def made(self, sends: Sequence[Mapping[str, Any]]) -> bool:
        """Whether most of these sends, which have numbers, are of its records."""
        try:
            records = list(islice(self.stream, max(send["n"] for send in sends) + 1))
        except ValueError:
            return False
        crcs = {record.n: record.crc for record in records}
        return sum(crcs.get(send["n"], -1) == send.get("crc") for send in sends) > len(sends) / 2


def workload_of(manifest: Mapping[str, Any], sent: Iterable[bytes]) -> RecordedWorkload | None:
    """Find what was sent; None where it is no seeded stream of the harness, or none that is known.

    Args:
        manifest: of the run, or of a control.
        sent: lines of `sent.jsonl`.
    """
    sample: list[dict[str, Any]] = []
    partitions, last_ms = 0, 0
    for _, row in objects(sent):
        if _is_count(row.get("n")) and _is_count(row.get("partition")):
            partitions = max(partitions, row["partition"] + 1)
            sample += [row] if len(sample) < _SAMPLE else []
            if row.get("kind") == "fresh" and _is_count(time := row.get("event_time_ms")):
                last_ms = max(last_ms, time)
    seed, topic = manifest.get("seed"), sample[0].get("topic") if sample else None
    if not isinstance(seed, int) or not isinstance(topic, str):
        return None
    for shape, places in _candidates(manifest, last_ms):
        found = RecordedWorkload(seed, shape, places, topic, partitions)
        if found.made(sample):
            return found
    return None


def _candidates(manifest: Mapping[str, Any], last_ms: int) -> Iterator[tuple[Shape, Places]]:
    control = next((one for one in EVERY if one.name == manifest.get("control")), None)
    if control is not None:
        yield shape_of(control), ()
        return
    workload, settings = manifest.get("workload"), manifest.get("settings")
    if not isinstance(workload, dict) or workload.get("kind") != "seeded" or not isinstance(settings, dict):
        return
    # The manifest does not say over how many minutes of event time; the sends do.
    minutes = max(-(-(last_ms - Shape().first_ms) // 60_000), 1)
    for one, places in product((minutes, minutes + 1), (PLACES, ())):
        try:
            source = _subject(manifest["seed"], workload["sent"], settings, one, places).source
        except (InputError, TypeError, ValueError):
            continue
        if isinstance(source, Bounded):
            yield source.stream.shape, source.places
        elif isinstance(source, Seeded):
            yield source.shape, ()


def _subject(seed: int, records: int, settings: Mapping[str, Any], minutes: int, places: Places) -> Subject:
    """What was sent under these settings: at a rate, or held back by the chain."""
    rate, skew, payload_bytes = settings.get("rate"), settings.get("skew"), int(settings.get("payload_bytes", 0))
    if rate is None:
        return seeded(seed, records, minutes, payload_bytes=payload_bytes, places=places)
    return unpaced(seed, records, float(rate), None if skew is None else float(skew), payload_bytes=payload_bytes)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0
