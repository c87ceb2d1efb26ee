"""Makes a small, complete and consistent run directory by a simulation of its own.

It shares no code with the checkers: what it writes is a second, independent telling of run-directory.md. Digests are
the pipeline's own, as they are in a run; only the hash of shards is the checkers', whose test has values of Spark's.
"""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from effectively_once.ledger import digest
from effectively_once.pipeline.columns import COORDINATES
from tests.harness.checkers.xxhash64 import shard_of
from tests.unit.harness.fabricated_files import SCHEMAS, Row, id_digest, raw, wire, write_json, write_lines
from tests.unit.harness.witnessed import processes_of

WINDOW_MS, LATENESS_MS, PARTITIONS, SHARDS = 60_000, 120_000, 3, 2
T0, EVENT_T0 = 1_750_000_000_000, 1_749_999_960_000
FIELDS = ("id", "user", "event_time_ms", "payload", "crc")
MALFORMED = {"not_json": b"\xff\xfe no text", "missing_user": None, "bad_time": None, "missing_id": None}
"""Reason -> bytes; None: JSON with one fault."""
GIT = {"commit": "c0ffee", "dirty": False}
CODE = {"effectively_once": "e0" * 32, "effectively_once_jobs": "f0" * 32}
SETTINGS: dict[str, Row] = {
    "settings.json": {"topic": "events", "epoch_rows_max": 20_000, "start_patience_s": 15.0},
    "settings-epilogue.json": {"topic": "events", "epoch_rows_max": 200_000, "start_patience_s": 15.0},
}
"""Of each settings file what matters: the pipeline has more."""
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
) -> Path:
    """Write a run with duplicates, late, malformed and re-sent records, closers, two faults and two controls.

    `without`: what is left out of the records at the bound: -1, 0, 1 (records that many ms behind it), `copies`,
    `others` (ids of another user) or `kept` (what is sent again after the first restart, but for one record).
    `repaired`: an epoch of which one shard showed too little; the next one repairs it.
    `divided`: an epoch of which one shard takes a third; the next two take the rest. `abandoned`: the first of them was
    abandoned, and its successor takes it all.
    """
    simulation = _Simulation(run, seed, without, repaired, divided)
    simulation.abandoned = abandoned
    simulation.play(epochs, per_epoch)
    return run


class _Simulation:
    settings: ClassVar[dict[str, Row]] = SETTINGS
    """Of its drivers, by the name of a file."""
    named: ClassVar[Row] = {}
    """What the manifest says of settings besides."""
    controls: ClassVar[tuple[str, ...]] = CONTROLS
    planned: ClassVar[int] = 2
    """Faults."""

    def __init__(
        self,
        run: Path,
        seed: int,
        without: Container[object],
        repaired: int | None = None,
        divided: int | None = None,
    ) -> None:
        self.without, self.repaired, self.divided = without, repaired, divided
        self.abandoned = False
        self.stopped: Row = {}
        self.reads: Row = {}
        self.shown: list[Row] = []
        self.left: list[Row] = []
        self.run, self.seed, self.random = run, seed, random.Random(seed)
        self.sent: list[Row] = []
        self.ends = [0] * PARTITIONS
        self.read = [0] * PARTITIONS
        self.sinks: dict[str, list[Row]] = {name: [] for name in ("accepted", "dead_letter", "user_counts")}
        self.global_counts: list[Row] = []
        self.sink_ends: dict[str, list[int]] = {name: [0] * SHARDS for name in self.sinks}
        self.ids: set[str] = set()
        self.counts: dict[tuple[int, str], int] = defaultdict(int)
        self.watermark: int | None = None
        self.newest: int | None = None
        self.chain: list[Row] = []
        self.history: list[Row] = []
        self.now, self.driver, self.generation = T0, 4711, 1
        self.kinds: dict[str, int] = defaultdict(int)
        self.lineage = "l1"
        self.begun: dict[int, float] = {}
        self.noted: set[str] = set()

    def play(self, epochs: int, per_epoch: int) -> None:
        self._start()
        self._tell("phase", phase="warm-up", git=GIT)
        self._tell("phase", phase="steady")
        for epoch in range(epochs):
            self._produce(epoch, per_epoch)
            self._epoch(fault={3: "executor", 6: "driver"}.get(epoch))
            for _ in range((epoch == self.repaired) + 2 * (epoch == self.divided)):
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
        boundary, steps = self._boundary(), []
        for checkpoint in ("kept", "deleted"):
            after = self._restart(checkpoint)
            again = workload[last(checkpoint) :]
            self._resend(again)
            steps.append({"step": "restart", "checkpoint": checkpoint, "resent": len(again), "after_epoch": after})
        closing = {"before": self._boundary()}
        for number in range(2):
            close(number)
        closing["after"], after = self._boundary(), len(self.chain) - 1
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

    def _boundary(self) -> Row:
        ends = {name: {str(at): end for at, end in enumerate(ends) if end} for name, ends in self.sink_ends.items()}
        return {**ends, "global_counts": self.global_counts[-1]["epoch"]}

    def _resend(self, rows: list[Row]) -> None:
        for row in rows:
            self._send({name: row[name] for name in (*CONTENT, *RAW) if name in row}, "resent")
        self._epoch()

    def _bound(self, moment: int) -> None:
        """Records 1 ms before, at and 1 ms after the moment that a window is closed."""
        end = moment - LATENESS_MS
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

    def _start(self) -> None:
        """Let a driver start, with the settings of the run, or those of its epilogue from the first restart on."""
        later = any(event.get("phase") == "epilogue" for event in self.history)
        self.begun[self.driver] = self.now / 1000
        text = json.dumps(self.settings["settings-epilogue.json" if later else "settings.json"], sort_keys=True)
        versions = {"python": "3.13.1", "spark": "4.2.0"}
        told = {"code": CODE, "settings": hashlib.sha256(text.encode()).hexdigest()[:32], "versions": versions}
        self._tell("driver", state="started", pid=self.driver, generation=self.generation, **told)

    def _end(self, state: str) -> None:
        """Let the driver end; of one that is killed the witness tells, of one that stops it does itself."""
        who = self._driver()
        if state == "stopped":
            self._tell("driver", state=state, pid=self.driver, generation=self.generation)
            return
        if who not in self.noted:
            self._tell("process", state="seen", process=who)
        self._tell("process", state="gone", process=who, last=self.now, code=-9)
        self._tell("driver", state=state, pid=self.driver, process=who)

    def _driver(self) -> str:
        """The driver as kernel and injector name it."""
        return f"{self.driver}@{self.begun[self.driver]:.2f}"

    def _tell(self, event: str, **fields: Any) -> None:
        self.now += 10
        self.history.append({"t": self.now, "event": event, **fields})

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
        number = len(self.chain)
        before, repairs = self.watermark, bool(self.left)
        time = {} if repairs else self._time()
        self._tell("epoch", epoch=number, state="declared", generation=self.generation, driver=self.driver)
        ranges = {str(p): [self.read[p], self.ends[p]] for p in range(PARTITIONS)}
        rows = [r for r in self.sent if self.read[r["partition"]] <= r["offset"] < self.ends[r["partition"]]]
        rows = [*rows, *self.left]
        rows.sort(key=lambda r: (r["partition"], r["offset"]))
        after = self.stopped
        self.reads = self.reads if repairs else {"events": ranges}
        rows, self.left, self.stopped = self._share(number, rows)
        self.read = list(self.ends)
        tally: Row = {"in": len(rows), "accepted": 0, "duplicate": 0, "late": 0, "malformed": 0}
        marks: Row = {name: {} for name in ("accepted", "dead_letter", "user_counts", "global_counts")}
        taken: list[list[tuple[str, int]]] = [[] for _ in range(SHARDS)]
        newest: int | None = None
        self._emit(number, before, marks)
        for row in rows:
            source = [row["topic"], row["partition"], row["offset"]]
            if row["reason"]:
                tally["malformed"] += 1
                letter = {"reason": row["reason"], "id": row["id"], "value": row["value"], "encoding": row["encoding"]}
                self._publish("dead_letter", marks, number, letter, source)
                continue
            end = row["event_time_ms"] // WINDOW_MS * WINDOW_MS + WINDOW_MS
            fields = {name: row[name] for name in FIELDS}
            if self.watermark is not None and end + LATENESS_MS <= self.watermark:
                tally["late"] += 1
                letter = {"reason": "late", "id": row["id"], **raw(wire(fields))}
                self._publish("dead_letter", marks, number, letter, source)
            elif row["id"] in self.ids:
                tally["duplicate"] += 1
            else:
                tally["accepted"] += 1
                self.ids.add(row["id"])
                self.counts[end - WINDOW_MS, row["user"]] += 1
                newest = max(newest or 0, row["event_time_ms"])
                taken[zlib.crc32(row["id"].encode()) % SHARDS].append((row["id"], row["event_time_ms"]))
                order = ("id", "event_time_ms", "user", "payload", "crc")
                self._publish("accepted", marks, number, {name: row[name] for name in order}, source)
        self.newest = max(self.newest or 0, newest) if newest else self.newest
        for name, ends in self.sink_ends.items():
            # The marker that ends a transaction takes an offset too.
            for shard in marks[name]:
                ends[int(shard)] += 1
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
                **({"shown": self._pinned()} if self.repaired is not None and (repairs or self.left) else {}),
                **({"after": after, "reads": self.reads} if after else {}),
                **({"left": self.stopped} if self.stopped else {}),
                **({"repairs": number - 1} if repairs and not self._gives_up(number) else {}),
                **({"abandoned": True} if self._gives_up(number) else {}),
            }
        )

    def _chain(self, content: Row) -> None:
        number = len(self.chain)
        # What takes a rest, or was to, is of the batch of the epoch that was divided.
        batch_id = self.chain[-1]["batch_id"] if "after" in content or "repairs" in content else number
        record = {"epoch": number, "generation": self.generation, "lineage": self.lineage, "batch_id": batch_id}
        record |= {"topic_ids": {"events": "topic-1"}, "watermark_ms": self.watermark}
        record |= {"shards": SHARDS, "wheel_digest": "w", "settings_digest": "s"}
        self.chain.append({**record, **content})

    def _shown(self, rows: list[Row]) -> tuple[list[Row], list[Row]]:
        """What an epoch takes of which shard 0 shows the first half, and what it leaves."""
        taken: list[Row] = []
        known = set(self.ids)
        for at, row in enumerate(rows):
            source = (row["topic"], row["partition"], row["offset"])
            mine = shard_of(row["id"] or "-".join(map(str, source)), SHARDS) == 0
            if mine and (at >= len(rows) // 2 or row["id"] in known):
                continue
            known |= {row["id"]} - {None}
            taken.append(row)
            self.shown += [{"epoch": self.repaired, "shard": 0, "source": list(source)}] * mine
        return taken, [row for row in rows if row not in taken]

    def _share(self, number: int, rows: list[Row]) -> tuple[list[Row], list[Row], Row]:
        """What an epoch takes of its rows, what it leaves to the next one, and where a shard stopped."""
        if number == self.repaired:
            return *self._shown(rows), {}
        if self._gives_up(number):
            return [], rows, self.stopped
        if self.divided is not None and number in (self.divided, self.divided + 1):
            return self._part(rows)
        return rows, [], {}

    def _gives_up(self, number: int) -> bool:
        return self.abandoned and self.divided is not None and number == self.divided + 1

    def _part(self, rows: list[Row]) -> tuple[list[Row], list[Row], Row]:
        """See `_share`, of an epoch whose shard 1 takes a third of its rows."""
        mine = [
            row
            for row in rows
            if shard_of(row["id"] or f"{row['topic']}-{row['partition']}-{row['offset']}", SHARDS) == 1
        ]
        left = mine[max(1, len(mine) // 3) :]
        stopped = {"1": [left[0]["topic"], left[0]["partition"], left[0]["offset"]]}
        return [row for row in rows if row not in left], left, stopped

    def _pinned(self) -> Row:
        rows = [dict(zip(COORDINATES.names, one["source"], strict=True)) for one in self.shown]
        table = pa.Table.from_pylist(rows, COORDINATES)
        return {"0": {"rows": table.num_rows, "digest": digest.of_rows_in(table), "bytes": 1, "key": "k", "ids": None}}

    def _emit(self, epoch: int, before: int | None, marks: Row) -> None:
        if self.watermark is None or self.watermark == before:
            return
        closed = sorted({start for start, _ in self.counts if start + WINDOW_MS + LATENESS_MS <= self.watermark})
        for start in closed:
            users = sorted(user for begin, user in self.counts if begin == start)
            total = 0
            for user in users:
                count = self.counts.pop((start, user))
                total += count
                self._publish("user_counts", marks, epoch, {"user": user, "window_start_ms": start, "count": count})
            row = {"sink": "global_counts", "window_start_ms": start, "count": total, "epoch": epoch}
            self.global_counts.append({**row, "object": f"global_counts/epoch={epoch}/part-0.jsonl"})
            marks["global_counts"].setdefault("0", {"rows": 0, "digest": ""})["rows"] += 1

    def _publish(self, sink: str, marks: Row, epoch: int, row: Row, source: list[Any] | None = None) -> None:
        # Counts go to the shard of their user, records to that of their id, or of their coordinate.
        home = row["user"] if source is None else row["id"] or "-".join(map(str, source))
        shard = shard_of(home, SHARDS)
        offset = self.sink_ends[sink][shard]
        fields = {**row, "epoch": epoch, **({} if source is None else {"source": source})}
        message = {"key": row.get("user")}
        self.sinks[sink].append({"sink": sink, **fields, "message": message, "partition": shard, "offset": offset})
        self.sink_ends[sink][shard] += 1
        marks[sink].setdefault(str(shard), {"rows": 0, "digest": ""})["rows"] += 1

    def _announce(self, epoch: int, step: str, sink: str | None) -> Row:
        """Let a shard of an epoch come by a step; what a fault that strikes at it says of it."""
        self._tell("step", epoch=epoch, shard=0, sink=sink, step=step, pid=5000 + epoch, attempt=0)
        phase = step if sink is None else f"{step}:{sink}"
        return {"epoch": epoch, "phase": phase, "shard": 0, "announced_at": self.now}

    def _strike(self, target: str, epoch: int) -> bool:
        # Each strikes at another of the two, and both came before it.
        steps = [self._announce(epoch, "ids_decided", None), self._announce(epoch, "transaction_open", "accepted")]
        at, injected = steps[target == "executor"], self.now
        before, after = f"{5000 + epoch}@{injected / 1000 - 1:.2f}", f"{6000 + epoch}@{injected / 1000 + 0.5:.2f}"
        if target == "driver":
            before = self._driver()
            self._tell("driver", state="killed", pid=self.driver)
            self.driver, self.generation = self.driver + 1, self.generation + 1
            self._start()
            after = self._driver()
            self.noted.add(after)
            self._tell("epoch", epoch=epoch, state="declared", generation=self.generation, driver=self.driver)
        who = {"process_before": before, "process_after": after, "injected_at": injected}
        self._tell("fault", kind="sigkill", target=target, signal="SIGKILL", **at, **who, recovered_s=1.5, hit=True)
        self.history += processes_of(self.history[-1:])
        return True

    def _write(self, epilogue: Row, planned: int) -> None:
        of_pipeline = {"pipeline": "user_counts", "topic": "events", "shards": SHARDS, "window_ms": WINDOW_MS}
        of_pipeline |= {"lateness_ms": LATENESS_MS, "sinks": list(SCHEMAS), **self.named}
        workload = {"kind": "seeded", "sent": planned, "duplicates_sent": self.kinds["duplicate"]}
        workload |= {"late_sent": self.kinds["late"], "malformed_sent": self.kinds["malformed"]}
        manifest = {"format": 1, "run": self.run.name, "seed": self.seed, "started_at": 0, "control": None}
        manifest |= {"claim": "Every output is exact while executors are killed.", "settings": of_pipeline}
        manifest |= {"workload": workload, "faults_planned": self.planned}
        manifest |= {"controls": [{"name": name, "must": "fail"} for name in self.controls], "schemas": SCHEMAS}
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
        for sink, rows in (*self.sinks.items(), ("global_counts", self.global_counts)):
            write_lines(observed / f"{sink}.jsonl", rows)
        write_json(observed / "chain.json", {"head": head, "epochs": self.chain})
        if self.shown:
            write_lines(observed / "shown.jsonl", self.shown)
        ends = [(name, shard, end) for name, shards in self.sink_ends.items() for shard, end in enumerate(shards)]
        known = ("last_stable_offset", "high_watermark", "read_to")
        partitions = [
            {"topic": f"user_counts.{name}", "partition": shard, **dict.fromkeys(known, end)}
            for name, shard, end in ends
        ]
        at = max(event["t"] for event in self.history)
        write_json(observed / "quiet.json", {"at": at, "partitions": partitions, "open_transactions": []})
        write_json(observed / "epilogue.json", epilogue)
        for name in self.controls:
            self._write_control(name, manifest)

    def _write_control(self, name: str, parent: Row) -> None:
        run = self.run / "controls" / name
        sent: list[Row] = []
        for n in range(40):
            record = self._record(f"{name}-{n:06d}", f"u{n % 4}", EVENT_T0 + n)
            place = {"kind": "fresh", "topic": name, "partition": n % 2, "offset": n // 2, "sent_at": T0}
            sent.append({"n": n, **record, **place})
        rows = [
            {
                **{"sink": "accepted", "epoch": 0, "partition": 0, "offset": at},
                **{field: row[field] for field in FIELDS},
                "source": [name, row["partition"], row["offset"]],
            }
            for at, row in enumerate([*sent, *sent[10:20]])
        ]
        settings = {**parent["settings"], "sinks": ["accepted"], "topic": name}
        workload = {"kind": "seeded", "sent": 40, "duplicates_sent": 0, "late_sent": 0, "malformed_sent": 0}
        own = {"run": f"{parent['run']}/{name}", "control": name, "faults_planned": 1, "settings": settings}
        own |= {"workload": workload, "controls": [], "schemas": {}}
        fault = {"t": T0 + 9, "event": "fault", "kind": "sigkill", "target": "executor", "signal": "SIGKILL"}
        fault |= {"epoch": 0, "phase": "records_visible", "process_before": "71@1.0", "process_after": "72@2.0"}
        fault |= {"injected_at": T0 + 5, "recovered_s": None, "hit": True}
        write_json(run / "manifest.json", {name: {**parent, **own}[name] for name in parent if name != "code"})
        write_lines(run / "sent.jsonl", sent)
        write_lines(run / "observed" / "accepted.jsonl", rows)
        batch = {"event": "epoch", "epoch": 0, "generation": 1, "driver": 70}
        write_lines(
            run / "history.jsonl",
            [
                {"t": T0, "event": "phase", "phase": "steady"},
                fault,
                {"t": T0 + 1, **batch, "state": "declared"},
                {"t": T0 + 8, **batch, "state": "published", "in": 40},
                {"t": T0 + 10, "event": "phase", "phase": "judge", "lines": 4},
            ],
            end=False,
        )
