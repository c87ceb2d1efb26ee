"""A campaign on a pipeline that is played by the test, and a fault that notes what is done with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.faults.campaign import Campaign
from tests.harness.faults.fault import Fault, now_ms
from tests.harness.history import History, read_history
from tests.harness.schedule import PlannedFault, Strike
from tests.unit.harness.sleepers import soon

PLANNED = PlannedFault(1, "committed", "accepted", 0)
SOON_S = 20.0


class Blow(Fault):
    """A fault that does nothing, and notes what is asked of it."""

    def __init__(self, place: Place) -> None:
        self.place, self.lasting, self.wants_records = place, place.lasting, place.wants_records
        self.flowing = place.flowing

    def prepare(self, planned: PlannedFault) -> None:
        self.place.prepared.append((planned.planned_s, planned.after_s))

    def aim(self, planned: PlannedFault, *, exactly: bool) -> None:
        self.place.aimed.append((planned.shard, exactly, len(self.place.watch.seen)))

    def arm(self) -> None:
        self.place.calls.append("arm")

    def disarm(self) -> None:
        self.place.calls.append("disarm")

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        # The moment comes first: whoever waits for the call tells of what came after it.
        at = self.place.struck_at = self.place.strikes_at or now_ms()
        self.place.calls.append("strike")
        if self.place.absent:
            self.place.absent -= 1
            raise NoProcessError("gone")
        return [(f"{one}@1", at) for one in self.place.victims]

    def endure(self) -> None:
        self.place.calls.append("endure")
        self.place.enduring.set()
        self.place.release.wait(SOON_S)
        if self.place.breaks:
            raise RuntimeError("a bug")

    def heal(self) -> None:
        self.place.calls.append("heal")

    def after(self) -> list[str]:
        return self.place.fresh

    def landed(self) -> bool:
        return self.place.lands

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": 1.5} if self.lasting else {}


class Place:
    """Drivers, arsenal and announcements of one campaign."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder / "history.jsonl")
        self.watch = Watch(folder / "events.jsonl", self.history)
        self.calls: list[str] = []
        self.said: list[str] = []
        self.victims, self.fresh = ["7"], ["8@2"]
        self.aimed: list[tuple[int, bool, int]] = []
        self.prepared: list[tuple[float | None, float]] = []
        self.lasting = self.breaks = self.wants_records = self.flowing = False
        self.lands = True
        self.absent = 0
        self.strikes_at: int | None = None
        self.struck_at = 0
        self.enduring, self.release = threading.Event(), threading.Event()
        self.campaign = Campaign([], self, self, self.watch, self.history, say=self.said.append)  # type: ignore[arg-type]

    def begin(self, *planned: PlannedFault) -> None:
        self.campaign = Campaign(planned, self, self, self.watch, self.history, say=self.said.append)  # type: ignore[arg-type]
        self.campaign.start()
        self.waits()

    def come_by(self, planned: PlannedFault = PLANNED) -> None:
        """Begin with one fault, and come by its step."""
        self.begin(planned)
        self.declare(1)
        self.step(1)

    def waits(self) -> None:
        soon("a fault that waits for its step", self.campaign.waiting.is_set)

    def fault(self, strike: Strike) -> Fault:
        return Blow(self)

    def close(self) -> None:
        self.calls.append("close")
        self.release.set()

    def alive(self) -> str | None:
        return None

    def tell(self, event: str, **fields: Any) -> None:
        with self.watch.changed:
            self.watch.seen.append({"t": now_ms(), "event": event, **fields})
            self.watch.changed.notify_all()

    def declare(self, epoch: int) -> None:
        self.tell("epoch", epoch=epoch, state="declared", driver=1)

    def publish(self, epoch: int, *, repeat: bool = True) -> None:
        """Publish an epoch, by default one of which a part was done again."""
        self.tell("epoch", epoch=epoch, state="published", driver=1, repeat=repeat)

    def step(self, epoch: int, shard: int = 0) -> None:
        self.tell("step", epoch=epoch, step="committed", sink="accepted", shard=shard, pid=1)

    def await_strikes(self, times: int) -> None:
        soon(f"{times} strikes", lambda: self.calls.count("strike") >= times)
        soon("a later millisecond than the strike's", lambda: now_ms() > self.struck_at)

    def faults(self) -> list[dict[str, Any]]:
        return [event for event in read_history(self.history.path) if event["event"] == "fault"]

    def phases(self) -> list[str]:
        return [event["phase"] for event in read_history(self.history.path) if event["event"] == "phase"]

    def end(self, epoch: int = 1) -> list[dict[str, Any]]:
        """Publish an epoch, of which a part was done again, and with it the campaign ends; its faults."""
        self.publish(epoch)
        self.await_end()
        return self.faults()

    def await_end(self) -> None:
        self.campaign.join(SOON_S)
        assert not self.campaign.is_alive()
