"""What was done to the executors, and to what else the suite drew."""

from __future__ import annotations

from collections import Counter

from tests.harness.processes import names
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import EVERY_EXECUTOR, EXECUTOR


def test_every_planned_strike_hit_a_running_epoch(results: Results, recorded: RunDirectory) -> None:
    """Executors are killed by exec and deleted; one strike more is drawn; each comes while an epoch runs."""
    planned = {(sort.kind, sort.target): sort.count for sort in recorded.manifest().faults}
    hits = Counter((fault.kind, fault.target) for fault in results.faults if fault.hit)
    assert planned
    assert {sort: hits[sort] for sort in planned} == planned


def test_a_strike_at_executors_ends_pods_and_others_take_their_place(results: Results) -> None:
    """Killing pods is real: the pod of another UID works after every strike at executors than before it."""
    for fault in [one for one in results.faults if one.target in (EXECUTOR, EVERY_EXECUTOR)]:
        before, after = names(fault.process_before), names(fault.process_after)
        assert before
        assert len(after) == len(before)
        uids = [one.partition("@")[2] for one in (*before, *after)]
        assert all(len(uid) == 36 for uid in uids)
        assert len(set(uids)) == len(uids), fault
