"""A job whose state is Spark's own (the second kind of R7), at the level of the chain.

Spark plans a batch by creating `offsets/n`, runs it, and creates `commits/n`, which names the state after it (here:
holds it). What a batch publishes depends on that state. So an epoch is recorded before Spark commits its batch, which
it will not repeat; a batch of a recorded epoch that Spark repeats runs again, with the decisions of the chain's deltas,
for the state alone; and a driver whose checkpoint is gone restarts from a backup of it, along the ranges that the chain
names, or is refused. The restart is the model's alone: the product refuses. Chain, create-once and publishing are the
product's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from effectively_once.errors import ChainError, SinkError, StaleDriverError
from effectively_once.ledger import chain, continuity
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.objects import Delete, body_of, create_once
from effectively_once.sinks.publish import Commit, FencedError, Mark, Open, publish
from tests.model.at import LAYOUT
from tests.model.changed import once
from tests.model.inputs import Rows, deal, prove
from tests.model.shards import ToShard
from tests.model.spark_at import (
    BACKUPS,
    EVERY,
    GONE,
    INPUT,
    At,
    Phase,
    Rules,
    declaration_of,
    epoch_of,
    ids_of,
    of_commit,
    record_of,
)
from tests.model.world import Names, Step


@dataclass(frozen=True, slots=True)
class Driver:
    """Runs the job to the end of its input, `rows` records an epoch; with `backups` it makes some.

    Where inputs may end early (`early`), to read one is a step of its own; elsewhere it would only add states.
    """

    name: str
    rows: int
    rules: Rules
    backups: bool
    early: bool = False

    def phase(self, at: At) -> Phase:
        """Run one phase."""
        step: Phase = getattr(self, f"_{at.phase}")(at)
        return step

    def _start(self, at: At) -> Phase:
        held = yield from chain.take_over(LAYOUT, self.name, {})
        head = held.head
        last = head.last
        if last is None:
            return at.holding(held, phase="plan", lineage=self._lineage(head))
        return at.holding(held, phase="load", lineage=last.lineage, batch=last.batch_id, span=last.ranges["t"]["0"])

    def _load(self, at: At) -> Phase:
        """Go on with the checkpoint where it is whole and fits; batch and span are the newest that the chain knows."""
        backups = yield Names(BACKUPS)
        below = at.held.head.floor if self.rules.r9_backup_above_floor else 0
        made = map(epoch_of, backups)
        at = replace(at, backup=max((epoch for epoch in made if epoch >= below), default=-1))
        names = yield Names(f"{at.folder}/")
        offsets, commits = ({epoch_of(name) for name in names if f"/{log}/" in name} for log in ("offsets", "commits"))
        newest = max(offsets, default=-1)
        base = newest if newest in commits else newest - 1
        planned = yield from body_of(f"{at.folder}/offsets/{at.batch}")
        fits = planned == str(at.span[1]).encode() or not self.rules.r7_checkpoint_fits
        if planned is None or not fits or newest > at.batch + 1 or (base >= 0 and base not in commits):
            return (yield from self._without_checkpoint(at))
        if base < 0:
            return replace(at, phase="plan", batch=0, span=(0, 0))
        body = yield from body_of(f"{at.folder}/commits/{base}")
        if body is None:
            return at  # It was there a moment ago: the checkpoint was just deleted.
        _, end, state = of_commit(body)
        return replace(at, phase="plan", batch=base + 1, span=(end, end), state=state)

    def _without_checkpoint(self, at: At) -> Phase:
        """Begin a new lineage with the state of the newest backup, or refuse."""
        lineage = self._lineage(at.held.head)
        if at.backup < 0:
            if self.rules.r7_refused_without_state:
                raise ChainError(GONE, LAYOUT.checkpoint(at.lineage), "")
            end = at.held.head.tail[-1].ranges["t"]["0"][1] if at.held.head.tail else 0
            return replace(at, phase="plan", lineage=lineage, batch=0, span=(end, end))
        body = yield from body_of(f"{BACKUPS}{at.backup:09d}")
        assert body is not None
        batch, end, state = of_commit(body)
        # The backup's own batch comes first, so that the lineage is whole whenever the chain names it.
        folder = LAYOUT.checkpoint(lineage)
        yield from create_once(f"{folder}/commits/{batch}", body)
        yield from create_once(f"{folder}/offsets/{batch}", str(end).encode())
        return replace(at, phase="plan", lineage=lineage, batch=batch + 1, span=(end, end), state=state)

    def _plan(self, at: At) -> Phase:
        """Plan a batch as Spark does: what the checkpoint says, or else the chain, or else what is new."""
        start = at.span[1]
        known = {
            each.ranges["t"]["0"][0]: each.ranges["t"]["0"][1]
            for each in (*at.recorded_head.tail, at.recorded_head.declared)
            if each is not None
        }
        end = min(start + self.rows, len(INPUT))
        if self.rules.r7_ranges_of_the_chain:
            end = known.get(start, end)
        key = f"{at.folder}/offsets/{at.batch}"
        found = yield from body_of(key)
        if found is None and start == len(INPUT):
            return replace(at, phase="end")
        if found is None:
            ours = str(end).encode()
            found = yield from once(create_once(key, ours), self.rules.r11_offsets_once)
            if found != ours:
                return replace(at, phase="conflict")
        return replace(at, phase="epoch", span=(start, int(found)))

    def _epoch(self, at: At) -> Phase:
        """Find what the batch is to the chain; declare what is new."""
        ranges = {"t": {"0": at.span}}
        seen = at.recorded_head
        match continuity.classify(seen, ranges, at.folder):
            case "recorded":
                known = next(record for record in seen.tail if record.ranges == ranges)
                if not self.rules.r7_recorded_runs_for_state:
                    return replace(at, phase="commit", epoch=declaration_of(known), new=(), silent=True)
                return replace(at, phase="decide", epoch=declaration_of(known), silent=True)
            case "declared":
                assert seen.declared is not None
                return replace(at, phase="decide", epoch=declaration_of(seen.declared), silent=False)
        declaration = Declaration(
            epoch=seen.last_recorded + 1,
            lineage=at.lineage,
            batch_id=at.batch,
            ranges=ranges,
            topic_ids={},
            watermark_ms=None,
            previous_watermark_ms=None,
            shards=1,
            wheel_digest="",
            settings_digest="",
        )
        # The delta before an epoch carries all ids; a restart from the newest backup needs the one of its epoch.
        floor = max(seen.last_recorded, 0)
        if self.rules.r9_deltas_until_backup and at.backup >= 0:
            floor = min(floor, at.backup)
        held = yield from chain.declare(LAYOUT, at.held, declaration, at.record, floor)
        for epoch in range(at.held.head.floor, held.head.floor):
            yield Delete(LAYOUT.delta("ids", epoch, 0))
        return at.holding(held, phase="decide", epoch=declaration.model_dump_json(), silent=False, published="")

    def _decide(self, at: At) -> Phase:
        """Dedup, inside of Spark's plan."""
        epoch, (start, end) = at.declaration.epoch, at.span
        records = yield from prove(deal(INPUT[start:end]), self.early, self._proof(self.rules.r13_whole_input))
        if records is None:
            return at  # The task failed, and is repeated.
        known: tuple[str, ...] = ()
        if epoch:
            body = yield from body_of(LAYOUT.delta("ids", epoch - 1, 0))
            if body is None:
                raise ChainError("a delta that the chain names is missing", LAYOUT.delta("ids", epoch - 1, 0), "")
            known = ids_of(body.decode().split("|")[1])
        new = tuple(dict.fromkeys(one for one in records if one not in known))
        ours = f"{','.join(new)}|{','.join((*known, *new))}".encode()
        if (yield from create_once(LAYOUT.delta("ids", epoch, 0), ours)) != ours:
            raise SinkError(f"epoch {epoch} was decided otherwise", "delta", "")
        return replace(at, phase="commit" if at.silent else "publish", new=new)

    def _publish(self, at: At) -> Phase:
        """Publish what Spark's operator gives: for each new id its number in the order of arrival."""
        pinned = at.declaration
        new = yield from prove(deal(at.new), self.early, self._proof(self.rules.r13_whole_results))
        if new is None:
            return at  # As above.
        rows = tuple(f"{one}={len(at.state) + number}" for number, one in enumerate(new, 1))
        ours = Mark(pinned.epoch, at.held.head.generation, len(rows), ",".join(rows))
        try:
            yield from _to_sink(ours, rows)
        except FencedError:
            return replace(at, phase="fenced")
        phase = "record" if self.rules.r7_recorded_before_commit else "commit"
        return replace(at, phase=phase, published=record_of(pinned, at.held.head).model_dump_json())

    def _record(self, at: At) -> Phase:
        """Record what is published, before Spark commits its batch: it will not repeat it then."""
        assert at.record is not None
        held = yield from chain.record(LAYOUT, at.held, at.record)
        return at.holding(held, phase="commit", published="")

    def _fenced(self, at: At) -> Phase:
        yield from self._still_ours()
        return replace(at, phase="publish")

    def _commit(self, at: At) -> Phase:
        """Commit the batch as Spark does; then make a backup, now and then."""
        end, state, epoch = at.span[1], (*at.state, *at.new), at.declaration.epoch
        # Two drivers name the files of a state otherwise, even of equal ones.
        ours = f"{at.batch}|{end}|{self.name}|{','.join(state)}".encode()
        if (yield from create_once(f"{at.folder}/commits/{at.batch}", ours)) != ours:
            return replace(at, phase="conflict")
        backup = at.backup
        if self.backups and epoch % EVERY == 0 and epoch > at.backup:
            yield from create_once(f"{BACKUPS}{epoch:09d}", ours)
            backup = epoch
        return replace(
            at,
            phase="plan",
            batch=at.batch + 1,
            span=(end, end),
            state=state,
            new=(),
            epoch="",
            silent=False,
            backup=backup,
        )

    def _conflict(self, at: At) -> Phase:
        """Spark's log refused a second writer: the query ends, and whoever owns head starts again."""
        yield from self._still_ours()
        return At()

    def _end(self, at: At) -> Phase:
        if at.record is not None:
            yield from chain.record(LAYOUT, at.held, at.record)
        return At(phase="done")

    def _still_ours(self) -> Generator[Step, Any, None]:
        if (yield from chain.read(LAYOUT)).owner != self.name:
            raise StaleDriverError(f"{self.name} was replaced", LAYOUT.head, "")

    def _proof(self, needed: bool) -> Callable[[Rows], bool]:
        return lambda rows: rows.whole or not needed

    def _lineage(self, head: Head) -> str:
        return f"{head.generation:06d}-{self.name}"


def _to_sink(ours: Mark, rows: tuple[str, ...]) -> Generator[Step, Any, None]:
    step, producer = publish(ours, None, "the sink"), 0
    try:
        request = next(step)
        while True:
            reply = yield ToShard(0, producer, request, rows if isinstance(request, Commit) else ())
            if isinstance(request, Open):
                producer, reply = reply, None
            request = step.send(reply)
    except StopIteration:
        return
