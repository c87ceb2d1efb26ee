"""From a wrong row to what it came of: its record, the epoch that read it, faults of that time, lines of the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.harness.checkers.case import coordinate_text
from tests.harness.report import naming, typeset
from tests.harness.report.epochs import Attempt
from tests.harness.report.lenient import mapping, mappings, real, sequence, text, whole
from tests.harness.report.recording import Recording

COORDINATE = re.compile(r"([\w.-]+)/(\d+)@(\d+)")
EPOCH = re.compile(r"\bepoch (\d+)\b")
LOG_LINES = 3
"""Of each epoch, so many of each log."""


@dataclass
class Trails:
    """Follows the lines that oracles give as evidence; what a run did not record, no line leads to.

    Args:
        path: the run directory.
        run: what was read of it.
        attempts: of all its epochs.
        faults: of all that struck.
        lines: all that will be followed.
    """

    path: Path
    run: Recording
    attempts: Sequence[Attempt]
    faults: Sequence[dict[str, Any]]
    lines: Sequence[str]
    _sends: list[dict[str, Any]] = field(init=False)
    _epochs: dict[int, list[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._sends = list(self._read_sent({place for line in self.lines for place in self._places(line)}))

    def of(self, line: str) -> list[str]:
        """Say in sentences what a line of evidence leads to."""
        places = self._places(line)
        named = [int(number) for number in EPOCH.findall(line)] + [
            epoch for place in places if (epoch := self._reader(place)) is not None
        ]
        return [
            *(told for place in places for told in self._record(place)),
            *(told for epoch in dict.fromkeys(named) for told in self._once(epoch)),
        ]

    def _once(self, epoch: int) -> list[str]:
        """Tell of an epoch; many lines name the same one, and its logs are read once."""
        if epoch not in self._epochs:
            self._epochs[epoch] = list(self._epoch(epoch))
        return self._epochs[epoch]

    def _places(self, line: str) -> list[tuple[str, int, int]]:
        """Coordinates of records of the source that a line names."""
        topic = text(mapping(self.run.manifest.get("settings")).get("topic"))
        found = [(name, int(partition), int(offset)) for name, partition, offset in COORDINATE.findall(line)]
        return [place for place in dict.fromkeys(found) if place[0] == topic]

    def _read_sent(self, places: set[tuple[str, int, int]]) -> Iterator[dict[str, Any]]:
        """Yield the sends of some places, and all others of their ids."""
        path = self.path / "sent.jsonl"
        if not places or not path.is_file():
            return
        with path.open("rb") as lines:
            sends = [send for line in lines if isinstance(send := _parse(line), dict) and "topic" in send]
        ids = {send.get("id") for send in sends if _place_of(send) in places} - {None}
        yield from (send for send in sends if _place_of(send) in places or send.get("id") in ids)

    def _record(self, place: tuple[str, int, int]) -> Iterator[str]:
        own = next((send for send in self._sends if _place_of(send) == place), None)
        at = coordinate_text(place)
        if own is None:
            yield f"{at}: no record of it in sent.jsonl"
            return
        yield (
            f"{at}: id {text(own.get('id')) or 'none'}, user {text(own.get('user')) or 'none'}, event time "
            f"{text(own.get('event_time_ms')) or 'none'}, {text(own.get('kind'))}, sent at {self._moment(own)}"
        )
        for other in self._sends:
            if other is not own and own.get("id") is not None and other.get("id") == own.get("id"):
                where, read = coordinate_text(_place_of(other)), self._reader(_place_of(other))
                by = f"read by epoch {read}" if read is not None else "read by no epoch"
                yield f"the same id at {where}, {text(other.get('kind'))}, sent at {self._moment(other)}, {by}"

    def _reader(self, place: tuple[str, int, int]) -> int | None:
        """Return the epoch whose range holds a place."""
        topic, partition, offset = place
        for record in mappings(self.run.chain.get("epochs")):
            span = sequence(mapping(mapping(record.get("ranges")).get(topic)).get(str(partition)))
            if len(span) == 2 and span[0] <= offset < span[1]:
                return whole(record.get("epoch"))
        return None

    def _epoch(self, epoch: int) -> Iterator[str]:
        own = [attempt for attempt in self.attempts if attempt.epoch == epoch]
        for attempt in own:
            ended = "published" if attempt.published else "broke off"
            again = ", done again" if attempt.repeat else ""
            yield (
                f"epoch {epoch}: declared at {typeset.moment(attempt.declared_at, self.run.start_ms)} by driver "
                f"{attempt.driver} of generation {attempt.generation}{again}, {ended} after {attempt.took_s:.1f} s"
            )
        for number, fault in enumerate(self.faults, 1):
            at = real(fault.get("injected_at"))
            during = at is not None and any(one.declared_at <= at <= one.ended_at for one in own)
            if during or whole(fault.get("epoch")) == epoch:
                yield (
                    f"fault {number} struck it: {naming.describe_deed(fault)}, "
                    f"{naming.role(text(fault.get('target')))}, at {typeset.moment(at, self.run.start_ms)}"
                )
        yield from self._read_log(epoch)

    def _read_log(self, epoch: int) -> Iterator[str]:
        wanted = f'"epoch": {epoch},'.encode()
        for path in sorted((self.path / "logs").glob("driver*.log")):
            with path.open("rb") as lines:
                found = [(number, line) for number, line in enumerate(lines, 1) if wanted in line]
            for number, line in found[:LOG_LINES]:
                says = text(mapping(_parse(line)).get("event")) or "see there"
                yield f"logs/{path.name}:{number}: {says}"

    def _moment(self, send: dict[str, Any]) -> str:
        return typeset.moment(real(send.get("sent_at")), self.run.start_ms)


def _parse(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _place_of(send: dict[str, Any]) -> tuple[str, int, int]:
    return text(send.get("topic")), whole(send.get("partition")) or 0, whole(send.get("offset")) or 0
