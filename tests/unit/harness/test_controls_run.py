"""How a negative control is played: rounds until it shows what it must, without Spark and broker."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from infra.console import Console
from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.events import WaitTimedOutError, Watch
from tests.harness.controls import run
from tests.harness.controls.names import APPEND_WITHOUT_MARK, BLOOM_ALONE, MARK_FIRST, TWO_DRIVERS, NegativeControl
from tests.harness.history import History, read_history
from tests.harness.run_directory import RunDirectory
from tests.unit.harness.fake_message import FakeMessage

Row = dict[str, Any]
Judged = Callable[[list[Row], int], list[Row]]
"""What the output holds of the records sent, after so many rounds."""


class Broker:
    """A producer whose records are acknowledged at once, and topics that show what the test says."""

    bootstrap = "b"

    def __init__(self, output: Judged) -> None:
        self.sent: list[Row] = []
        self.rounds = 0
        self.created: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._output = output
        self._offsets = [0, 0]

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, *, on_delivery: Any) -> None:
        self.sent.append(orjson.loads(value))
        on_delivery(None, FakeMessage(place=(topic, partition, self._offsets[partition])))
        self._offsets[partition] += 1

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return 0

    def create(self, partitions: dict[str, int], compacted: dict[str, int]) -> None:
        self.created = (partitions, compacted)

    def ends(self, topic: str) -> dict[int, int]:
        return {0: 0, 1: 0}

    def appears(self, *_: Any) -> bool:
        return True

    def read(self, topic: str, stop: threading.Event) -> Iterator[Row]:
        for offset, row in enumerate(self._output(self.sent, self.rounds)):
            yield {**row, "partition": 0, "offset": offset}


class Drivers:
    """Announces a batch whenever a gate is opened; `running` says whether it runs when its executors are killed."""

    driver = 4711

    def __init__(self, broker: Broker, events: Path, by: tuple[str, ...], running: Callable[[int], bool]) -> None:
        self._broker, self._events, self._by, self._running = broker, events, by, running
        self._told, self._alive = 0, 0
        self.kills = 0
        self.arguments: tuple[str, ...] = ()

    def start(self, name: str, settings: Path, *arguments: str) -> None:
        self.arguments = arguments
        self._announce({"t": 1, "event": "controls", "state": "started"})

    def alive(self) -> None:
        return None

    def end(self) -> None:
        pass

    def arm(self, kind: str) -> None:
        pass

    def executors(self) -> list[str]:
        return [f"{10 * self._alive + number}@1.0" for number in (1, 2)]

    def kill_executors(self, kind: str) -> list[Struck]:
        struck = [(who, 50) for who in self.executors()]
        self._alive += 1
        self.kills += 1
        return struck

    def open_gate(self, name: str) -> None:
        self._broker.rounds += 1
        rows = len(self._broker.sent) - self._told
        self._told += rows
        for by in self._by:
            self._announce(
                {
                    "t": 2,
                    "event": "batch",
                    "control": name,
                    "by": by,
                    "epoch": self._broker.rounds - 1,
                    "declared": 1,
                    "published": 100 if self._running(self._broker.rounds) else 2,
                    "rows": rows,
                }
            )

    def _announce(self, event: Row) -> None:
        with self._events.open("a") as file:
            file.write(json.dumps(event) + "\n")


@dataclass
class Played:
    """A control that was played, and what it left."""

    broker: Broker
    drivers: Drivers
    own: RunDirectory
    said: str

    @property
    def hits(self) -> list[bool]:
        return [event["hit"] for event in read_history(self.own.history_path) if event["event"] == "fault"]


Play = Callable[..., Played]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Return a function that plays a control whose output, hits and drivers are as the test says."""

    def played(
        control: NegativeControl,
        output: Judged,
        *,
        running: Callable[[int], bool] = lambda _: True,
        by: tuple[str, ...] | None = None,
    ) -> Played:
        control = replace(control, records=100)
        parent = RunDirectory(tmp_path)
        parent.write_json(
            parent.manifest_path,
            {
                "format": 1,
                "run": "r",
                "claim": "c",
                "seed": 1,
                "settings": {"topic": "events"},
                "workload": {"kind": "seeded", "sent": 1},
                "faults_planned": 0,
            },
        )
        settings, said = tmp_path / "settings.json", io.StringIO()
        settings.write_text('{"pipeline": "nc"}')
        broker = Broker(output)
        monkeypatch.setattr(run, "kafka_producer", lambda _: broker)
        drivers = Drivers(broker, tmp_path / "controls.jsonl", by or control.drivers, running)
        with History(tmp_path / "scratch.jsonl") as scratch:
            run.run_controls(
                parent,
                drivers,  # type: ignore[arg-type]
                broker,  # type: ignore[arg-type]
                Watch(tmp_path / "controls.jsonl", scratch),
                settings=settings,
                seed=1,
                console=Console(stream=said),
                stop=threading.Event(),
                controls=[control],
            )
        return Played(broker, drivers, parent.control(control.name), said.getvalue())

    return played


def exact(sent: list[Row], rounds: int) -> list[Row]:
    return sent


def doubled(sent: list[Row], rounds: int) -> list[Row]:
    return sent + sent[:3]


def lost(sent: list[Row], rounds: int) -> list[Row]:
    return sent[5:]


def test_a_control_that_shows_by_itself_is_not_killed(play: Play) -> None:
    played = play(replace(BLOOM_ALONE, copies=0.0), lost)
    assert (played.broker.rounds, played.drivers.kills, played.hits) == (1, 0, [])
    manifest = orjson.loads(played.own.manifest_path.read_bytes())
    assert (manifest["faults_planned"], manifest["shows"], manifest["control"]) == (0, "missing", "bloom_alone")
    assert "bloom_alone: 5 records lost after 1 round\n" in played.said


def test_a_kill_that_hit_and_what_it_showed_end_a_control(play: Play, tmp_path: Path) -> None:
    played = play(MARK_FIRST, lost)
    assert (played.broker.rounds, played.hits) == (1, [True, True])
    assert "mark_first: 5 records lost after 1 round of kills\n" in played.said
    assert played.broker.created[1] == {"nc.mark_first.accepted.progress": 2}
    assert played.drivers.arguments == (str(tmp_path), "mark_first")


def late(sent: list[Row], rounds: int) -> list[Row]:
    return doubled(sent, rounds) if rounds == 4 else sent


@pytest.mark.parametrize(
    ("output", "hits", "rounds"),
    [
        # What was doubled without a kill that is known to have hit shows nothing of kills.
        (doubled, lambda number: number == 3, 3),
        (late, lambda _: True, 4),
        # Loss does not end a control of doubles, and one that does not fail is given up.
        (lost, lambda _: True, 5),
        (exact, lambda _: True, 5),
    ],
)
def test_kills_are_repeated_until_one_hits_and_records_are_doubled(
    play: Play, output: Judged, hits: Callable[[int], bool], rounds: int
) -> None:
    """After five rounds it is left to the judge, with all that was sent and seen."""
    played = play(APPEND_WITHOUT_MARK, output, running=hits)
    assert (played.broker.rounds, len(played.own.sends())) == (rounds, 100 * rounds)
    assert len([*played.own.rows("accepted")]) == len(output(played.broker.sent, rounds))
    assert played.hits == [hits(number) for number in range(1, rounds + 1) for _ in range(2)]
    if output is exact:
        assert "append_without_mark: 0 records doubled after 5 rounds of kills\n" in played.said


def test_the_epochs_of_each_driver_are_told(play: Play) -> None:
    played = play(TWO_DRIVERS, doubled)
    epochs = [event for event in read_history(played.own.history_path) if event["event"] == "epoch"]
    assert [(event["driver"], event["state"]) for event in epochs] == [
        ("first", "declared"),
        ("first", "published"),
        ("second", "declared"),
        ("second", "published"),
    ]


def test_a_driver_that_does_not_publish_is_not_passed_over(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUIET_S", 0.2)
    with pytest.raises(WaitTimedOutError, match="two_drivers to publish"):
        play(TWO_DRIVERS, doubled, by=("first",))
