"""Makes a small, complete and consistent run directory by a simulation of its own.

It shares no code with the checkers: what it writes is a second, independent telling of run-directory.md. Digests are
the pipeline's own, as they are in a run; only the hash of shards is the checkers', whose test has values of Spark's.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from tests.unit.harness.fabricated_control import write_control
from tests.unit.harness.fabricated_drivers import CODE, GIT, Drivers
from tests.unit.harness.fabricated_files import (
    FIELDS,
    LATENESS_MS,
    SCHEMAS,
    SHARDS,
    WINDOW_MS,
    Row,
    id_digest,
    raw,
    wire,
    write_json,
    write_lines,
)
from tests.unit.harness.fabricated_shares import Shares
from tests.unit.harness.fabricated_sinks import Sinks

PARTITIONS, EVENT_T0 = 3, 1_749_999_960_000
MALFORMED = {"not_json": b"\xff\xfe no text", "missing_user": None, "bad_time": None, "missing_id": None}
"""Reason -> bytes; None: JSON with one fault."""
CONTROLS = ("spark_kafka_sink", "append_without_mark")
CONTENT = (*FIELDS, "reason")
RAW = ("value", "encoding")
"""Of a malformed record."""


def fabricate(
    run: Path,
    *,
    seed: int = 7,
    epochs: int = 10,
    per_epoch: int = 24,
    without: Container[object] = (),
    repaired: int | None = None,
    divided: int | None = None,
    abandoned: bool = False,
    resharded: Mapping[int, int] | None = None,
) -> Path:
    """Write a run with duplicates, late, malformed and re-sent records, closers, two faults and two controls.

    `without`: what is left out of the records at the bound: -1, 0, 1 (records that many ms behind it), `copies`,
    `others` (ids of another user) or `kept` (what is sent again after the first restart, but for one record).
    `repaired`: an epoch of which one shard showed too little; the next one repairs it.
    `divided`: an epoch of which one shard takes a third; the next two take the rest. `abandoned`: the first of them was
    abandoned, and its successor takes it all.
    `resharded`: epochs that a change gave another number of shards, which those behind them have too.
    """
    Simulation(run, seed, without, Shares(repaired, divided, abandoned), resharded or {}).play(epochs, per_epoch)
    return run


class Simulation(Drivers):
    """A pipeline, its sender and its sinks."""

    named: ClassVar[Row] = {}
    """What the manifest says of settings besides."""
    controls: ClassVar[tuple[str, ...]] = CONTROLS
    planned: ClassVar[int] = 2
    """Faults."""
    lateness_ms = LATENESS_MS

    def __init__(
        self,
        run: Path,
        seed: int,
        without: Container[object] = (),
        shares: Shares | None = None,
        resharded: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.without, self.shares, self.resharded = without, shares or Shares(), resharded
        self.sinks = Sinks(max((SHARDS, *resharded.values())))
        self.reads: Row = {}
        self.run, self.seed, self.random = run, seed, random.Random(seed)
        self.sent: list[Row] = []
        self.ends = [0] * PARTITIONS
        self.read = [0] * PARTITIONS
        self.ids: set[str] = set()
        self.watermark: int | None = None
        self.newest: int | None = None
        self.chain: list[Row] = []
        self.kinds: dict[str, int] = defaultdict(int)

    def play(self, epochs: int, per_epoch: int) -> None:
        self._start()
        self._tell("phase", phase="warm-up", git=GIT)
        self._tell("phase", phase="steady")
        for epoch in range(epochs):
            self._produce(epoch, per_epoch)
            self._reshard(len(self.chain))
            self._epoch(fault={3: "executor", 6: "driver"}.get(epoch))
            for _ in range((epoch == self.shares.repaired) + 2 * (epoch == self.shares.divided)):
                self._epoch()
        self._bound(EVENT_T0 + (epochs + 1) * WINDOW_MS)
        far = EVENT_T0 + (epochs + 100) * WINDOW_MS
        self._tell("phase", phase="drain")
        self._finish(lambda checkpoint: -1 if checkpoint in self.without else -60, lambda at: self._close_by(at, far))

    def _close_by(self, number: int, time: int) -> None:
        self._send(self._record(f"closer-{number}", "closer", time), "closer")
        self._epoch()

    def _finish(
        self, last: Callable[[str], int], close: Callable[[int], None], settle: Callable[[], None] | None = None
    ) -> None:
        """Play the epilogue: restarts after which the last records are sent again, closers, and all of it again."""
        workload = [row for row in self.sent if row["kind"] != "closer"]
        self._tell("phase", phase="epilogue")
        if settle is not None:
            settle()
        boundary, steps = self.sinks.boundary(), []
        for checkpoint in ("kept", "deleted"):
            after = self._restart(checkpoint)
            again = workload[last(checkpoint) :]
            self._resend(again)
            steps.append({"step": "restart", "checkpoint": checkpoint, "resent": len(again), "after_epoch": after})
        closing = {"before": self.sinks.boundary()}
        for number in range(2):
            close(number)
        closing["after"], after = self.sinks.boundary(), len(self.chain) - 1
        self._resend(workload)
        self._end("stopped")
        steps.append({"step": "closed", "resent": len(workload), "after_epoch": after})
        for phase in ("controls", "judge"):
            self._tell("phase", phase=phase)
        self._write({"boundary": boundary, "closing": closing, "steps": steps}, len(workload))

    def _restart(self, checkpoint: str) -> int:
        """End the driver, and start another one with its checkpoint kept or deleted; return the last epoch before."""
        self._end("killed" if checkpoint == "kept" else "stopped")
        self.generation, self.driver = self.generation + 1, self.driver + 1
        after, self.lineage = len(self.chain) - 1, self.lineage if checkpoint == "kept" else "l2"
        self._start()
        return after

    def _resend(self, rows: list[Row]) -> None:
        for row in rows:
            self._send({name: row[name] for name in (*CONTENT, *RAW) if name in row}, "resent")
        self._epoch()

    def _reshard(self, epoch: int) -> None:
        if (shards := self.resharded.get(epoch)) is None:
            return
        self.sinks.shards, at = shards, self.now
        change = {"name": "shards", "says": f"{shards} shards", "shards": shards, "bound_s": 60.0, "up_s": 40.0}
        self._tell("change", **change, began=at, seen=at, lacks="", failed="", evidence={})

    def _bound(self, moment: int) -> None:
        """Records 1 ms before, at and 1 ms after the moment that a window is closed."""
        end = moment - self.lateness_ms
        fresh = [row for row in self.sent if row["kind"] == "fresh" and row["event_time_ms"] >= end - WINDOW_MS]
        for after in (-1, 0, 1):
            self._send(self._record(f"pin-{after}", "u00001", moment + after), "fresh")
            self._epoch()
            if after not in self.without:
                self._send(self._record(f"probe-{after}", "u00001", end - 1), "fresh" if after < 0 else "late")
            for row in fresh[:20] if after < 0 and "copies" not in self.without else ():
                self._send({name: row[name] for name in CONTENT}, "duplicate")
            if after < 0 and "others" not in self.without:
                other = self._record(fresh[0]["id"], "u99999", fresh[0]["event_time_ms"])
                self._send(other, "duplicate")
        self._send(self._record("behind-the-bound", "u00001", moment + 2), "fresh")
        self._epoch()

    def _record(self, id_: str, user: str, time: int) -> Row:
        payload = f"pay-{self.random.randrange(10**6)}-é"
        crc = zlib.crc32(f"{id_}|{user}|{time}|{payload}".encode())
        return {"id": id_, "user": user, "event_time_ms": time, "payload": payload, "crc": crc, "reason": None}

    def _send(self, record: Row, kind: str) -> None:
        partition = zlib.crc32((record["user"] or str(len(self.sent))).encode()) % PARTITIONS
        at = {"topic": "events", "partition": partition, "offset": self.ends[partition], "sent_at": self.now}
        self.sent.append({"n": len(self.sent), **record, "kind": kind, **at})
        self.ends[partition] += 1
        self.kinds[kind] += 1

    def _produce(self, epoch: int, number: int) -> None:
        base = EVENT_T0 + epoch * WINDOW_MS
        fresh: list[Row] = []
        for sequence in range(number):
            user = f"u{self.random.randrange(6):05d}"
            time = base + self.random.randrange(WINDOW_MS) - (WINDOW_MS // 2 if sequence % 5 == 0 else 0)
            record = self._record(f"p0-s{epoch}-{sequence:06d}", user, time)
            self._send(record, "fresh")
            fresh.append(record)
        for record in self.random.sample(fresh, 3):
            self._send(record, "duplicate")
        if epoch == 8:
            old = next(row for row in self.sent if row["kind"] == "fresh")
            self._send({name: old[name] for name in fresh[0]}, "duplicate")
        if epoch >= 5:
            late = base - 4 * WINDOW_MS - self.random.randrange(1000)
            self._send(self._record(f"late-{epoch}", "u00001", late), "late")
        blank = {"id": None, "user": None, "event_time_ms": None, "payload": None, "crc": None}
        reason = ("not_json", "missing_user", "bad_time", "missing_id")[epoch % 4]
        named = {"id": f"bad-{epoch}"} if reason in ("missing_user", "bad_time") else {}
        content = MALFORMED[reason] or wire({**named, "user": None, "event_time_ms": None, "payload": "é", "crc": 0})
        self._send({**blank, **named, "reason": reason, **raw(content)}, "malformed")

    def _time(self) -> Row:
        """Move the watermark to where an epoch that begins has it; what it pins of time."""
        if self.newest is not None and (self.watermark is None or self.newest > self.watermark):
            self.watermark = self.newest
        return {}

    def _epoch(self, fault: str | None = None) -> None:
        number, shares = len(self.chain), self.shares
        before, repairs = self.watermark, bool(shares.left)
        time = {} if repairs else self._time()
        self._tell("epoch", epoch=number, state="declared", generation=self.generation, driver=self.driver)
        ranges = {str(p): [self.read[p], self.ends[p]] for p in range(PARTITIONS)}
        rows = [r for r in self.sent if self.read[r["partition"]] <= r["offset"] < self.ends[r["partition"]]]
        rows = [*rows, *shares.left]
        rows.sort(key=lambda r: (r["partition"], r["offset"]))
        after = shares.stopped
        self.reads = self.reads if repairs else {"events": ranges}
        rows = shares.of(number, rows, self.ids)
        self.read = list(self.ends)
        tally: Row = {"in": len(rows), "accepted": 0, "duplicate": 0, "late": 0, "malformed": 0}
        marks: Row = {name: {} for name in ("accepted", "dead_letter", "user_counts", "global_counts")}
        taken: list[list[tuple[str, int]]] = [[] for _ in range(SHARDS)]
        newest: int | None = None
        if self.watermark is not None and self.watermark != before:
            self.sinks.emit(number, self.watermark - self.lateness_ms, marks)
        for row in rows:
            source = [row["topic"], row["partition"], row["offset"]]
            if row["reason"]:
                tally["malformed"] += 1
                letter = {"reason": row["reason"], "id": row["id"], "value": row["value"], "encoding": row["encoding"]}
                self.sinks.publish("dead_letter", marks, number, letter, source)
                continue
            end = row["event_time_ms"] // WINDOW_MS * WINDOW_MS + WINDOW_MS
            fields = {name: row[name] for name in FIELDS}
            if self.watermark is not None and end + self.lateness_ms <= self.watermark:
                tally["late"] += 1
                letter = {"reason": "late", "id": row["id"], **raw(wire(fields))}
                self.sinks.publish("dead_letter", marks, number, letter, source)
            elif row["id"] in self.ids:
                tally["duplicate"] += 1
            else:
                tally["accepted"] += 1
                self.ids.add(row["id"])
                self.sinks.counts[end - WINDOW_MS, row["user"]] += 1
                newest = max(newest or 0, row["event_time_ms"])
                taken[zlib.crc32(row["id"].encode()) % SHARDS].append((row["id"], row["event_time_ms"]))
                order = ("id", "event_time_ms", "user", "payload", "crc")
                self.sinks.publish("accepted", marks, number, {name: row[name] for name in order}, source)
        self.newest = max(self.newest or 0, newest) if newest else self.newest
        self.sinks.commit(marks)
        repeat = self._strike(fault, number) if fault else False
        about = {"generation": self.generation, "driver": self.driver, **tally, "ms": {"total": 10}, "repeat": repeat}
        self._tell("epoch", epoch=number, state="published", **about)
        ids = {str(s): {"rows": len(t), "digest": id_digest(t)} for s, t in enumerate(taken) if t}
        self._chain(
            {
                "ranges": {"events": ranges},
                "counts": tally,
                "max_event_time_ms": newest,
                "sinks": marks,
                **time,
                "deltas": {"ids": ids},
                **({"shown": shares.pinned()} if shares.repaired is not None and (repairs or shares.left) else {}),
                **({"after": after, "reads": self.reads} if after else {}),
                **({"left": shares.stopped} if shares.stopped else {}),
                **({"repairs": number - 1} if repairs and not shares.gives_up(number) else {}),
                **({"abandoned": True} if shares.gives_up(number) else {}),
            }
        )

    def _chain(self, content: Row) -> None:
        number = len(self.chain)
        # What takes a rest, or was to, is of the batch of the epoch that was divided.
        batch_id = self.chain[-1]["batch_id"] if "after" in content or "repairs" in content else number
        record = {"epoch": number, "generation": self.generation, "lineage": self.lineage, "batch_id": batch_id}
        record |= {"topic_ids": {"events": "topic-1"}, "watermark_ms": self.watermark}
        shards = self.sinks.shards
        record |= {"shards": shards, "wheel_digest": "w", "settings_digest": f"s{shards}"}
        self.chain.append({**record, **content})

    def _write(self, epilogue: Row, planned: int) -> None:
        of_pipeline = {"pipeline": "user_counts", "topic": "events", "shards": SHARDS, "window_ms": WINDOW_MS}
        of_pipeline |= {"lateness_ms": self.lateness_ms, "sinks": list(SCHEMAS), **self.named}
        workload = {"kind": "seeded", "sent": planned, "duplicates_sent": self.kinds["duplicate"]}
        workload |= {"late_sent": self.kinds["late"], "malformed_sent": self.kinds["malformed"]}
        manifest = {"format": 1, "run": self.run.name, "seed": self.seed, "started_at": 0, "control": None}
        manifest |= {"claim": "Every output is exact while executors are killed.", "settings": of_pipeline}
        manifest |= {"workload": workload, "faults_planned": self.planned}
        manifest |= {"controls": [{"name": name, "must": "fail"} for name in self.controls], "schemas": SCHEMAS}
        manifest |= {"changes": [{"name": "shards", "count": len(self.resharded)}]} if self.resharded else {}
        manifest |= {"versions": {"spark": "4.2.0"}, "git": GIT, "code": CODE}
        last = len(self.chain) - 1
        head = {"format": 1, "generation": self.generation, "owner": "o"}
        head |= {"last_recorded": last - 1, "declared": last, "floor": 0}
        observed = self.run / "observed"
        write_json(self.run / "manifest.json", manifest)
        for name, settings in self.settings.items():
            write_json(self.run / name, settings)
        write_lines(self.run / "sent.jsonl", self.sent)
        write_lines(self.run / "history.jsonl", self.history, end=False)
        write_json(observed / "chain.json", {"head": head, "epochs": self.chain})
        if self.shares.shown:
            write_lines(observed / "shown.jsonl", self.shares.shown)
        self.sinks.write(observed, at=max(event["t"] for event in self.history))
        write_json(observed / "epilogue.json", epilogue)
        for name in self.controls:
            write_control(self.run / "controls" / name, manifest, partial(self._of_control, name))

    def _of_control(self, name: str, number: int) -> Row:
        return self._record(f"{name}-{number:06d}", f"u{number % 4}", EVENT_T0 + number)
