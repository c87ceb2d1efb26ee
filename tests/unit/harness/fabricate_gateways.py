"""Makes up a run as `fabricate` does, whose records come from two gateways: one is away beyond the bound, and returns.

A gateway says twice a turn how far it is. The words that no epoch pins are judged too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

from tests.unit.harness.fabricate import CONTENT, EVENT_T0, PARTITIONS, Simulation
from tests.unit.harness.fabricate_asked import asked_of
from tests.unit.harness.fabricated_drivers import GIT, SETTINGS, T0
from tests.unit.harness.fabricated_files import FIELDS, LATENESS_MS, WINDOW_MS, Row, raw, wire, write_lines

NORTH, AWAY = GATEWAYS = ("north-gate", "south-gate")
TURNS, AWAY_FROM, BACK_AT, PER_TURN = 15, 3, 12, 12
TURN_MS, HOLD_MAX_MS, PLANNED_S = 12_000, 60_000, 100.0
DISORDER_MS = 150_000
"""By so much a copy may be behind the begin of its turn."""
SAID = {
    "sources": [*GATEWAYS],
    "hold_max_ms": HOLD_MAX_MS,
    "idle_ms": 300_000,
    "window_ms": WINDOW_MS,
    "lateness_ms": LATENESS_MS,
}


def _gateway_of(user: str | None) -> str:
    return NORTH if user is None else GATEWAYS[crc32(user.encode()) // PARTITIONS % len(GATEWAYS)]


def _users() -> tuple[str, ...]:
    """One user of each gateway in each partition, so that no partition stands still while one is away."""
    found: dict[tuple[int, str], str] = {}
    for number in range(100):
        user = f"u{number:05d}"
        found.setdefault((crc32(user.encode()) % PARTITIONS, _gateway_of(user)), user)
    return tuple(found[key] for key in sorted(found))


USERS = _users()


def fabricate_gateways(run: Path, *, seed: int = 7) -> Path:
    """Write a run in which windows are released by the bound, and records of them are refused."""
    _Gateways(run, seed).play(TURNS, PER_TURN)
    return run


class _Gateways(Simulation):
    settings: ClassVar[dict[str, Row]] = {name: {**one, **SAID} for name, one in SETTINGS.items()}
    named: ClassVar[Row] = {
        "campaign": "embedded",
        "rate": 250.0,
        "gateways": [*GATEWAYS],
        "hold_max_ms": HOLD_MAX_MS,
    }
    controls: ClassVar[tuple[str, ...]] = ()
    planned: ClassVar[int] = 1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.away: str | None = None
        self.kept: list[tuple[Row, str]] = []
        self.fault: Row = {}
        self.said: list[Row] = []
        self.sources: dict[str, int | None] = dict.fromkeys(GATEWAYS)

    def play(self, epochs: int, per_epoch: int) -> None:
        """Play turns, then the epilogue of every run; of these all windows are closed by one closer a partition."""
        self._start()
        self._tell("phase", phase="warm-up", git=GIT)
        self._tell("phase", phase="steady")
        for turn in range(epochs):
            self._turn(turn, per_epoch)
        self._close("settler", EVENT_T0 + epochs * WINDOW_MS)
        self._tell("phase", phase="drain")
        self._finish(lambda _: -60, lambda number: self._close_by(number, EVENT_T0 + (epochs + 100) * WINDOW_MS))
        had = (
            {"delivered_at": one["said_at"] + 1, **{name: one[name] for name in ("source", "time_ms")}}
            for one in self.said
        )
        write_lines(self.run / "statements.jsonl", [line for pair in zip(self.said, had, strict=True) for line in pair])
        write_lines(self.run / "asked.jsonl", asked_of(self.chain, self.history))

    def _close_by(self, number: int, time: int) -> None:
        self.vouched = time
        self._close(f"closer-{number}", time)

    def _close(self, name: str, time: int) -> None:
        """Move the time of every partition, and let an epoch heed what was said before."""
        for at, user in enumerate(USERS):
            self._send(self._record(f"{name}-{at}", user, time), "closer")
        self._epoch()

    def _turn(self, turn: int, number: int) -> None:
        self.now += TURN_MS // 2
        self.vouched = EVENT_T0 + turn * WINDOW_MS - DISORDER_MS
        if turn == BACK_AT:
            self._return()
        else:
            self._say()
        self._produce(turn, number)
        self.vouched += WINDOW_MS // 2
        self._epoch(AWAY if turn == AWAY_FROM else None)
        if turn == BACK_AT:
            at = self.fault["injected_at"]
            self._tell("fault", **self.fault, recovered_s=round((self.now - at) / 1000, 3), hit=True)

    def _produce(self, epoch: int, number: int) -> None:
        base = EVENT_T0 + epoch * WINDOW_MS
        copies = [row for row in self.sent if row["kind"] == "fresh" and f"-s{epoch - 2}-" in row["id"]]
        for sequence in range(number):
            time = base + self.random.randrange(WINDOW_MS) - (WINDOW_MS // 2 if sequence % 5 == 0 else 0)
            self._send(self._record(f"p0-s{epoch}-{sequence:06d}", USERS[sequence % len(USERS)], time), "fresh")
        for row in copies[:2]:
            self._send({name: row[name] for name in CONTENT}, "duplicate")
        late = base - 8 * WINDOW_MS - self.random.randrange(1000)
        if epoch >= 5:
            self._send(self._record(f"late-{epoch}", USERS[0], late), "late")
        blank = {**dict.fromkeys(FIELDS), "reason": "missing_user"}
        content = wire({**dict.fromkeys(FIELDS), "id": f"bad-{epoch}", "payload": "é"})
        self._send({**blank, "id": f"bad-{epoch}", **raw(content)}, "malformed")

    def _send(self, record: Row, kind: str) -> None:
        gateway = _gateway_of(record["user"])
        if gateway == self.away:
            self.kept.append((record, kind))
            return
        super()._send(record, kind)
        self.sent[-1] |= {"acked_at": self.now + 3, "gateway": gateway}

    def _say(self) -> None:
        """Have each gateway that is there say how far it is; before the first record none says anything."""
        offsets = {str(partition): end for partition, end in enumerate(self.ends) if end}
        for name in (one for one in GATEWAYS if offsets and one != self.away):
            self.now += 5
            self.said.append({"said_at": self.now, "source": name, "time_ms": self.vouched, "offsets": offsets})

    def _epoch(self, fault: str | None = None) -> None:
        self.now += TURN_MS // 2
        self._say()
        super()._epoch(fault)

    def _time(self) -> Row:
        """Heed words once all is read that they speak of, and let go who has been silent for the bound."""
        shown: dict[str, int] = {}
        for row in self.sent:
            if row["reason"] in (None, "late") and row["offset"] < self.read[row["partition"]]:
                place = str(row["partition"])
                shown[place] = max(row["event_time_ms"], shown.get(place, 0))
        for one in self.said:
            if all(end <= self.read[int(partition)] for partition, end in one["offsets"].items()):
                self.sources[one["source"]] = one["time_ms"]
        released = [one for one in GATEWAYS if self.now - self._since(one) >= HOLD_MAX_MS]
        awaited = [shown.get(str(partition)) for partition in range(PARTITIONS)]
        awaited += [time for source, time in self.sources.items() if source not in released]
        known = [time for time in awaited if time is not None]
        if len(known) == len(awaited):
            self.watermark = max(min(known), self.watermark or 0)
        clock = {"shown": {"events": shown} if shown else {}, "idle": {}, "sources": {**self.sources}}
        return {"clock": {**clock, "released": released}}

    def _since(self, source: str) -> int:
        """When a gateway first named its latest time; of one that has said nothing, when the run began."""
        mine = [one for one in self.said if one["source"] == source]
        latest = max((one["time_ms"] for one in mine), default=None)
        return next((one["said_at"] for one in mine if one["time_ms"] == latest), T0)

    def _strike(self, target: str, epoch: int) -> bool:
        who = f"gateway {target}"
        self.fault = {"kind": "held_back", "target": "gateway", "signal": None, "planned_s": PLANNED_S}
        self.fault |= self._announce(epoch, "transaction_open", "accepted")
        self.fault |= {"process_before": who, "process_after": who, "injected_at": self.now}
        self.away = target
        return False

    def _return(self) -> None:
        held_s = round((self.now - self.fault["injected_at"]) / 1000, 3)
        self.away, kept, self.kept = None, self.kept, []
        self.fault |= {"healed_at": self.now, "held_s": held_s, "kept": len(kept)}
        for record, kind in kept:
            self._send(record, kind)
