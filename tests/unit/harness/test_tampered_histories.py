"""A history that was tampered with is caught, by the oracle or guard whose matter it is and by none that it is not.

Each tampering is done to a fabricated run and to one that was recorded (recorded/README.md).
"""

from __future__ import annotations

import copy
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.depth import examples
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_run
from tests.unit.harness.recorded_run import on_each_run
from tests.unit.harness.tamper import Change, document, history, lines_of, manifest, observed, sent


def _forget_one(sends: list[Row]) -> None:
    """Forget a send that was accepted, and of which there is no copy."""
    counts = Counter(send["id"] for send in sends if send["kind"] != "resent")
    del sends[next(at for at, send in enumerate(sends) if send["kind"] == "fresh" and counts[send["id"]] == 1)]


def _again(rows: list[Row], **changes: Any) -> None:
    """Append a row once more, at the next offset of its partition."""
    row = copy.deepcopy(rows[5])
    newest = max(one["offset"] for one in rows if one["partition"] == row["partition"])
    rows.append({**row, "offset": newest + 1, **changes})


def _fault(rows: list[Row]) -> Row:
    return next(row for row in rows if row["event"] == "fault" and row["hit"])


def _epochs(rows: list[Row], state: str) -> list[Row]:
    return [row for row in rows if row["event"] == "epoch" and row["state"] == state]


def _without(wanted: Callable[[Row], bool]) -> Callable[[list[Row]], None]:
    """Take out the first line that is wanted."""

    def change(rows: list[Row]) -> None:
        rows.remove(next(row for row in rows if wanted(row)))

    return change


def _older_generation_publishes(rows: list[Row]) -> None:
    """The first generation, thought dead, publishes an epoch that a later one has declared and published."""
    oldest = _epochs(rows, "declared")[0]
    for state in ("declared", "published"):
        last = _epochs(rows, state)[-1]
        rows.insert(rows.index(last) + 1, {**last, "generation": oldest["generation"], "driver": oldest["driver"]})


def _older_generation_declared(rows: list[Row]) -> None:
    """Two declarations change places: the newer generation's first epoch becomes the older one's, and the reverse."""
    oldest, newest = _epochs(rows, "declared")[0], _epochs(rows, "declared")[-1]
    for row in _epochs(rows, "declared") + _epochs(rows, "published"):
        swapped = {oldest["generation"]: newest, newest["generation"]: oldest}.get(row["generation"])
        if swapped is not None:
            row["generation"] = swapped["generation"]


def _nothing_published_after(rows: list[Row]) -> None:
    fault = _fault(rows)
    kept = [row for row in rows if row not in _epochs(rows, "published") or row["t"] < fault["injected_at"]]
    rows[:] = kept


def _retract_a_row(rows: list[Row]) -> None:
    """The reader saw one record more than there is in the end."""
    at = next(at for at in reversed(range(len(rows))) if rows[at].get("offsets"))
    place = max((one for one in rows if one.get("partition") == rows[at]["partition"]), key=lambda one: one["offsets"])
    seen = {**place, "t": rows[at]["t"], "offsets": [place["offsets"][-1] + 1], "crcs": [1]}
    rows.insert(at + 1, seen)


def _unwatch(run: Path) -> None:
    observed("accepted.concurrent", _retract_a_row)(run)
    manifest(lambda told: told.update(concurrent_reader=False))(run)


def _moved(by: int) -> Callable[[Any], None]:
    """Move the start of a range that the epoch before it ended."""

    def change(chain: Any) -> None:
        spans = next(iter(chain["epochs"][2]["ranges"].values()))
        next(span for span in spans.values() if span[1] - span[0] > 1)[0] += by

    return change


def _other_catalog(chain: Any) -> None:
    """The delta lists as many ids as were accepted, but another one among them."""
    shard = next(iter(chain["epochs"][2]["deltas"]["ids"].values()))
    form, _, hexadecimal = shard["digest"].rpartition(":")
    shard["digest"] = f"{form and form + ':'}{int(hexadecimal, 16) ^ 1:032x}"


def _one_more_late(chain: Any) -> None:
    chain["epochs"][2]["counts"]["late"] += 1


def _no_rows_claimed(chain: Any) -> None:
    next(one for one in chain["epochs"] if one["counts"]["accepted"])["sinks"]["accepted"] = {}


def _newer_generation_claimed(chain: Any) -> None:
    """The chain says of a generation's last epoch that the next one recorded it."""
    at = next(at for at, one in enumerate(chain["epochs"]) if one["generation"] > 1)
    chain["epochs"][at - 1]["generation"] = chain["epochs"][at]["generation"]


def _of_accepted(quiet: Any) -> Any:
    return next(part for part in quiet["partitions"] if part["topic"].endswith(".accepted"))


def _stable_earlier(quiet: Any) -> None:
    _of_accepted(quiet)["last_stable_offset"] -= 5


def _ends_earlier(quiet: Any) -> None:
    part = _of_accepted(quiet)
    part.update(last_stable_offset=part["last_stable_offset"] - 5, high_watermark=part["high_watermark"] - 5)


def _one_more(rows: list[Row]) -> None:
    rows[0]["count"] += 1


def _publish_otherwise(rows: list[Row]) -> None:
    row = _epochs(rows, "published")[2]
    row.update(accepted=row["accepted"] - 1, duplicate=row["duplicate"] + 1)


def _publish_too_much(rows: list[Row]) -> None:
    at = rows.index(_epochs(rows, "published")[-1]) + 1
    rows[at:at] = [{**_epochs(rows, state)[-1], "epoch": 10_000} for state in ("declared", "published")]


Objections = dict[str, tuple[Change, tuple[str, ...]]]
"""What is done -> how, and who else may object."""
TAMPERINGS: dict[tuple[str, Verdict], Objections] = {
    ("multiset", FAIL): {
        "a record lost": (observed("accepted", lambda rows: rows.pop(5)), ("chain", "monotone")),
        "a dead letter lost": (observed("dead_letter", lambda rows: rows.pop(0)), ("monotone", "epilogue")),
        "a record doubled": (observed("accepted", _again), ("chain", "epilogue", "messages", "monotone", "quiet")),
        "a phantom": (
            observed("accepted", lambda rows: _again(rows, id="p9-s9-999999")),
            ("chain", "epilogue", "messages", "monotone", "quiet"),
        ),
        "a payload altered": (observed("accepted", lambda rows: rows[5].update(payload="other")), ("monotone",)),
        "an epoch altered": (
            observed("accepted", lambda rows: rows[5].update(epoch=rows[5]["epoch"] + 1)),
            ("chain", "messages", "monotone"),
        ),
        "an acknowledged send forgotten": (sent(_forget_one), ("chain", "aggregates", "workload", "epilogue")),
    },
    ("aggregates", FAIL): {
        "a count of a user wrong": (observed("user_counts", _one_more), ("multiset", "monotone")),
        "a count of a window wrong": (observed("global_counts", _one_more), ("multiset", "monotone")),
    },
    ("monotone", FAIL): {
        "a record retracted": (observed("accepted.concurrent", _retract_a_row), ()),
        "a record retracted, and the reader denied": (_unwatch, ()),
    },
    ("quiet", FAIL): {
        "an open transaction not listed": (document("quiet", _stable_earlier), ()),
    },
    ("quiet", UNKNOWN): {
        "an open transaction hidden": (document("quiet", _ends_earlier), ("epilogue",)),
        "a partition left out": (document("quiet", lambda quiet: quiet["partitions"].remove(_of_accepted(quiet))), ()),
    },
    ("chain", FAIL): {
        "an older generation publishing after a newer": (history(_older_generation_publishes), ()),
        "generations that changed places": (history(_older_generation_declared), ("faults", "epochs")),
        "an epoch of another generation than told": (document("chain", _newer_generation_claimed), ()),
        "ranges with a gap": (document("chain", _moved(1)), ("coverage", "multiset", "aggregates", "epilogue")),
        "ranges that overlap": (document("chain", _moved(-1)), ("coverage", "multiset", "aggregates", "epilogue")),
        "a catalog of other ids": (document("chain", _other_catalog), ()),
        "a count of an epoch one off": (document("chain", _one_more_late), ()),
        "a sink's rows not claimed": (document("chain", _no_rows_claimed), ()),
        "an epoch told otherwise": (history(_publish_otherwise), ()),
    },
    ("epochs", UNKNOWN): {
        "an epoch that the chain does not hold": (history(_publish_too_much), ()),
        "a publication not told": (
            history(_without(lambda row: row.get("state") == "published" and row["epoch"] == 1)),
            ("faults", "history"),
        ),
        "a declaration not told": (
            history(_without(lambda row: row.get("state") == "declared" and row["epoch"] == 1)),
            ("faults", "history"),
        ),
        "a start not told": (
            history(_without(lambda row: row.get("state") == "started" and row["generation"] == 1)),
            (),
        ),
    },
    ("history", UNKNOWN): {
        "a phase not told": (history(_without(lambda row: row.get("phase") == "drain")), ()),
    },
    ("faults", UNKNOWN): {
        "a fault not told": (history(_without(lambda row: row["event"] == "fault")), ()),
        "a fault that replaced nobody": (
            history(lambda rows: _fault(rows).update(process_after=_fault(rows)["process_before"])),
            (),
        ),
        "a fault without anything published after it": (history(_nothing_published_after), ("epochs", "minimum")),
        "a fault undone before it came": (
            history(lambda rows: _fault(rows).update(healed_at=_fault(rows)["injected_at"] - 1)),
            (),
        ),
    },
}
"""Who must object, and how."""
CASES = {what: (by, *one) for by, of_one in TAMPERINGS.items() for what, one in of_one.items()}


@on_each_run
def test_the_run_that_is_tampered_with_passes(clean: Path) -> None:
    expect_run(clean, PASS, "monotone")


@pytest.mark.parametrize("what", CASES)
@pytest.mark.thinned(3)
def test_a_tampering_is_caught_by_the_one_whose_matter_it_is(clean: Path, tmp_path: Path, what: str) -> None:
    (caught_by, verdict), does, others = CASES[what]
    run = Path(shutil.copytree(clean, tmp_path / clean.name))
    does(run)
    results = expect(run, verdict, caught_by)
    objecting = {oracle.name for oracle in results.oracles if oracle.verdict is not PASS}
    assert objecting <= {caught_by, *others}, results.reasons


def test_a_history_that_counts_its_lines_misses_any_of_them(run: Path) -> None:
    """Some lines say nothing that another one would miss: the last tells how many there were."""
    history(lambda rows: rows[-1].update(lines=len(rows) - 1))(run)
    assert judge(run, write=False).verdict is PASS
    rows = [*enumerate(lines_of(run / "history.jsonl")[:-1])]
    for at, row in rows[:: len(rows) // examples(len(rows))]:
        history(lambda rows, at=at: rows.pop(at))(run)  # type: ignore[misc]
        assert judge(run, write=False).verdict is UNKNOWN, row
        history(lambda rows, at=at, row=row: rows.insert(at, row))(run)  # type: ignore[misc]


def test_a_recovery_is_measured_and_not_believed(run: Path) -> None:
    due = [fault.recovered_s for fault in judge(run, write=False).faults]
    history(lambda rows: _fault(rows).update(recovered_s=0.001, replaced_s=0.001))(run)
    assert [fault.recovered_s for fault in judge(run, write=False).faults] == due
    assert 0.001 not in due
