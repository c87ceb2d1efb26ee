"""Oracle 5: the chain tells one history without gap or overlap, and every epoch did what its pinned input demands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.harness.checkers import adding_up, digest, loss, repairs, shards, telling
from tests.harness.checkers.case import FIRST, Case, refute
from tests.harness.checkers.reference import EpochNumbers, Reference
from tests.harness.evidence import Chain, DigestedRows, EpochRecord, EvidenceError
from tests.harness.results import Oracle, Verdict
from tests.harness.sends import Send
from tests.harness.sinks import ACCEPTED_ROWS

NAME, NUMBER = "chain", 5


def order(chain: Chain) -> list[str]:
    """Describe breaks of the chain itself: epochs dense from 0, generations growing, head at its end."""
    found: list[str] = []
    generation = 0
    for due, record in enumerate(chain.epochs):
        if record.epoch != due:
            found.append(f"epoch {record.epoch} stands where epoch {due} is due")
        if record.generation < generation:
            found.append(f"epoch {record.epoch}: generation {record.generation} after {generation}")
        generation = max(generation, record.generation)
    head, last = chain.head, chain.epochs[-1].epoch
    if head.generation < generation:
        found.append(f"head: generation {head.generation}, epoch records know {generation}")
    # The last epoch is recorded only with the next declaration, so it may still be the declared one.
    recorded = -1 if head.last_recorded is None else head.last_recorded
    if (recorded, head.declared_epoch) not in ((last, None), (last - 1, last)):
        found.append(
            f"head: last recorded {head.last_recorded}, declared {head.declared_epoch}, but the records end at {last}"
        )
    return found


def lineages(epochs: Sequence[EpochRecord]) -> list[str]:
    """Describe lineages that come back after another one began, and batches that are none after the one before.

    A driver goes on with the last lineage, or begins another; Spark numbers the batches of each. An epoch that repairs
    the one before publishes more of the same batch, or was to, and was abandoned.
    """
    found: list[str] = []
    over: set[str | None] = set()
    for before, record in pairwise(epochs):
        least = (before.batch_id or 0) + (record.repairs != before.epoch and not record.leaves_again)
        if record.lineage != before.lineage:
            over.add(before.lineage)
        elif None not in (record.batch_id, before.batch_id) and (record.batch_id or 0) < least:
            found.append(f"epoch {record.epoch}: batch {record.batch_id} after batch {before.batch_id} of its lineage")
        if record.lineage in over:
            found.append(f"epoch {record.epoch}: lineage {record.lineage}, after another one had begun")
    return found


def ranges(epochs: Sequence[EpochRecord], sends: Iterable[Send]) -> list[str]:
    """Describe gaps and overlaps of the ranges per partition, and acknowledged sends beyond their end.

    A gap that is recorded as an accepted loss is none.
    """
    found: list[str] = []
    ends: dict[tuple[str, int], int] = {}
    for record in epochs:
        for place, (start, end) in loss.spans_of(record).items():
            if start != ends.get(place, 0) or end <= start:
                found.append(
                    f"epoch {record.epoch}: gives up {start} to {end} of {place[0]}/{place[1]}, due is "
                    f"{ends.get(place, 0)}"
                )
            else:
                ends[place] = end
        for topic, partitions in record.ranges.items():
            for partition, (start, end) in sorted(partitions.items()):
                due = ends.get((topic, partition), 0)
                if start != due:
                    sort = "gap" if start > due else "overlap"
                    found.append(
                        f"epoch {record.epoch}: {sort} in {topic}/{partition}: starts at {start}, due is {due}"
                    )
                if end < start:
                    found.append(f"epoch {record.epoch}: {topic}/{partition} ends at {end} before its start {start}")
                ends[topic, partition] = end
    newest: dict[tuple[str, int], int] = {}
    for send in sends:
        place = (send.topic, send.partition)
        if send.offset > newest.get(place, -1):
            newest[place] = send.offset
    for (topic, partition), offset in sorted(newest.items()):
        if offset >= ends.get((topic, partition), 0):
            end = ends.get((topic, partition), 0)
            found.append(f"{topic}/{partition}: acknowledged up to @{offset}, but the chain ends at @{end}")
    return found


def constants(epochs: Sequence[EpochRecord]) -> list[str]:
    """Describe epochs whose topic ids or settings digest differ from those of the first that names them.

    The digest is also of the number of shards, which may change.
    """
    found: list[str] = []
    ids: dict[str, str] = {}
    digests: dict[int, str] = {}
    for record in epochs:
        for topic in record.ranges:
            if topic not in record.topic_ids:
                found.append(f"epoch {record.epoch}: no id of topic {topic}")
        for topic, id_ in record.topic_ids.items():
            if ids.setdefault(topic, id_) != id_:
                found.append(f"epoch {record.epoch}: topic {topic} has id {id_}, before it was {ids[topic]}")
        if (digest := digests.setdefault(record.shards, record.settings_digest)) != record.settings_digest:
            found.append(f"epoch {record.epoch}: settings digest {record.settings_digest}, was {digest}")
    return found


def numbers(record: EpochRecord, due: EpochNumbers, with_table: bool = False) -> list[str]:
    """Describe where the counts, watermark and row numbers of an epoch differ from the reference's."""
    counts = record.counts
    where = f"epoch {record.epoch}"
    found = [
        f"{where}: {name} is {said}, the reference says {meant}"
        for name, said, meant in (
            ("watermark_ms", record.watermark_ms, due.watermark_due_ms),
            ("max_event_time_ms", record.max_event_time_ms, due.max_event_time_ms),
            ("counts.in", counts.in_, due.in_),
            ("counts.accepted", counts.accepted, due.accepted),
            ("counts.duplicate", counts.duplicate, due.duplicate),
            ("counts.late", counts.late, due.late),
            ("counts.malformed", counts.malformed, due.malformed),
            # Its transform leaves nothing out.
            ("filtered", record.filtered, {}),
        )
        if said != meant
    ]
    rows = {
        "accepted": due.accepted,
        "dead_letter": due.late + due.malformed,
        "user_counts": due.user_counts,
        "global_counts": due.global_counts,
    }
    # A run without a result store has no such table.
    rows |= {ACCEPTED_ROWS: due.accepted} if with_table else {}
    for sink, meant in rows.items():
        # A sink the epoch published nothing to may be left out or empty.
        if (said := _rows(record.sinks.get(sink, {}))) != meant:
            found.append(f"{where}: sink {sink} says {said} rows, the reference says {meant}")
    return found


def catalog(record: EpochRecord, accepted: Sequence[tuple[str, int]]) -> list[str]:
    """Describe whether the epoch's `ids` delta is not exactly the ids accepted in it, each with its event time."""
    delta = record.deltas.get("ids", {})
    try:
        said = digest.add(shard.digest for shard in delta.values())
    except ValueError as error:
        return [f"epoch {record.epoch}: ids delta: {error}"]
    due = digest.of_tables(((id_.encode(), time_ms) for id_, time_ms in accepted), said)
    if _rows(delta) == len(accepted) and said == due:
        return []
    says = f"{_rows(delta)} ids with digest {said}, accepted were {len(accepted)} with digest {due}"
    some = f" (first id {accepted[0][0]})" if accepted else ""
    return [f"epoch {record.epoch}: ids delta holds {says}{some}"]


def compare_published(rows: Iterable[Mapping[str, Any]], reference: Reference) -> list[str]:
    """Describe accepted rows of another epoch than the reference's, and epochs with another number of them."""
    found: list[str] = []
    per_epoch: Counter[Any] = Counter()
    for row in rows:
        epoch, index = row.get("epoch"), reference.accepted.get(str(row.get("id")))
        per_epoch[epoch] += 1
        if index is not None and reference.epochs_of[index] != epoch and len(found) < FIRST:
            found.append(f"id {row.get('id')} was published in epoch {epoch}, due was {reference.epochs_of[index]}")
    for due in reference.numbers:
        if per_epoch[due.epoch] != due.accepted:
            found.append(f"epoch {due.epoch}: {per_epoch[due.epoch]} accepted rows published, due are {due.accepted}")
    known = {due.epoch for due in reference.numbers}
    found += [
        f"{rows} accepted rows of epoch {epoch}, not in the chain"
        for epoch, rows in per_epoch.items()
        if epoch not in known
    ]
    return found


def _rows(digests: Mapping[str, DigestedRows]) -> int:
    return sum(shard.rows for shard in digests.values())


def judge(case: Case) -> Oracle:
    """Oracle 5; raises EvidenceError, also for a chain without any epoch."""
    found, chain, reference = breaks(case), case.chain, case.reference
    accepted: dict[int, list[tuple[str, int]]] = {}
    for id_, index in reference.accepted.items():
        accepted.setdefault(reference.epochs_of[index], []).append((id_, case.sends[index].event_time_ms or 0))
    # One that is declared alone has no numbers; `order` tells of it.
    for record, due in zip(chain.epochs, reference.numbers[: len(chain.epochs)], strict=True):
        found += numbers(record, due, ACCEPTED_ROWS in case.manifest.settings.sinks)
        found += catalog(record, accepted.get(record.epoch, []))
    found += compare_published(case.rows("accepted"), reference)
    says = (
        ", generation after generation; each one's numbers, which add up, watermark, catalog delta and accepted rows "
        "equal the reference's"
    )
    return finding(case, found, len(case.sends) - case.lost, says)


def breaks(case: Case) -> list[str]:
    """Describe what no chain may show, whatever its pipeline is. Raises EvidenceError for one without any epoch."""
    chain = case.chain
    if not chain.epochs:
        raise EvidenceError("the chain holds no epoch", case.run.chain_path, "run long enough for one epoch")
    found = order(chain) + lineages(chain.epochs) + ranges(chain.epochs, case.sends) + constants(chain.epochs)
    found += repairs.complaints(chain.pinned, case.shown)
    found += shards.find_unset(case)
    return found + telling.find_overtaken(case.events) + telling.find_contradicted(chain, case.events)


def finding(case: Case, found: Sequence[str], held: int, says: str) -> Oracle:
    """What a chain comes to that reads so many records: its breaks, or what it holds, and what it gave up."""
    found = [*found, *adding_up.complaints(adding_up.recorded_epochs(case.chain.epochs), held)]
    if found:
        return refute(NAME, NUMBER, f"{len(found)} breaks of the chain, first: {found[0]}", found)
    gave_up = loss.sentence(case.chain.epochs, case.lost)
    whole = f"with a gap: {gave_up}" if gave_up else "without gap or overlap"
    says = f"{len(case.chain.epochs)} epochs {whole}{says}"
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
