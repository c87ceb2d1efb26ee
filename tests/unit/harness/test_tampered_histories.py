"""A history that was tampered with is caught, by the oracle or guard whose matter it is and by none that it is not.

Each tampering is done to a fabricated run and to one that was recorded (recorded/README.md).
"""

from __future__ import annotations

import copy
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_run
from tests.unit.harness.recorded_run import RECORDED, unpacked
from tests.unit.harness.tamper import Change, document, history, lines_of, manifest, observed, sent


@dataclass(frozen=True)
class Tampering:
    """What is done, who must object and how, who else may."""

    does: Change
    caught_by: str
    verdict: Verdict
    others: tuple[str, ...] = ()


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


def _seen_and_retracted(rows: list[Row]) -> None:
    """The reader saw one record more than there is in the end."""
    at = next(at for at in reversed(range(len(rows))) if rows[at].get("offsets"))
    place = max((one for one in rows if one.get("partition") == rows[at]["partition"]), key=lambda one: one["offsets"])
    seen = {**place, "t": rows[at]["t"], "offsets": [place["offsets"][-1] + 1], "crcs": [1]}
    rows.insert(at + 1, seen)


def _unwatched(run: Path) -> None:
    observed("accepted.concurrent", _seen_and_retracted)(run)
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


def _published_otherwise(rows: list[Row]) -> None:
    row = _epochs(rows, "published")[2]
    row.update(accepted=row["accepted"] - 1, duplicate=row["duplicate"] + 1)


def _published_too_much(rows: list[Row]) -> None:
    at = rows.index(_epochs(rows, "published")[-1]) + 1
    rows[at:at] = [{**_epochs(rows, state)[-1], "epoch": 10_000} for state in ("declared", "published")]


TAMPERINGS = {
    "a record lost": Tampering(observed("accepted", lambda rows: rows.pop(5)), "multiset", FAIL, ("chain", "monotone")),
    "a dead letter lost": Tampering(
        observed("dead_letter", lambda rows: rows.pop(0)), "multiset", FAIL, ("monotone", "epilogue")
    ),
    "a record doubled": Tampering(
        observed("accepted", _again), "multiset", FAIL, ("chain", "epilogue", "messages", "monotone", "quiet")
    ),
    "a phantom": Tampering(
        observed("accepted", lambda rows: _again(rows, id="p9-s9-999999")),
        "multiset",
        FAIL,
        ("chain", "epilogue", "messages", "monotone", "quiet"),
    ),
    "a payload altered": Tampering(
        observed("accepted", lambda rows: rows[5].update(payload="other")), "multiset", FAIL, ("monotone",)
    ),
    "an epoch altered": Tampering(
        observed("accepted", lambda rows: rows[5].update(epoch=rows[5]["epoch"] + 1)),
        "multiset",
        FAIL,
        ("chain", "messages", "monotone"),
    ),
    "an acknowledged send forgotten": Tampering(
        sent(_forget_one),
        "multiset",
        FAIL,
        ("chain", "aggregates", "workload", "epilogue"),
    ),
    "a count of a user wrong": Tampering(
        observed("user_counts", _one_more), "aggregates", FAIL, ("multiset", "monotone")
    ),
    "a count of a window wrong": Tampering(
        observed("global_counts", _one_more), "aggregates", FAIL, ("multiset", "monotone")
    ),
    "a record retracted": Tampering(observed("accepted.concurrent", _seen_and_retracted), "monotone", FAIL),
    "a record retracted, and the reader denied": Tampering(_unwatched, "monotone", FAIL),
    "an open transaction not listed": Tampering(document("quiet", _stable_earlier), "quiet", FAIL),
    "an open transaction hidden": Tampering(document("quiet", _ends_earlier), "quiet", UNKNOWN, ("epilogue",)),
    "a partition left out": Tampering(
        document("quiet", lambda quiet: quiet["partitions"].remove(_of_accepted(quiet))), "quiet", UNKNOWN
    ),
    "an older generation publishing after a newer": Tampering(history(_older_generation_publishes), "chain", FAIL),
    "generations that changed places": Tampering(
        history(_older_generation_declared), "chain", FAIL, ("faults", "epochs")
    ),
    "an epoch of another generation than told": Tampering(document("chain", _newer_generation_claimed), "chain", FAIL),
    "ranges with a gap": Tampering(
        document("chain", _moved(1)), "chain", FAIL, ("coverage", "multiset", "aggregates", "epilogue")
    ),
    "ranges that overlap": Tampering(
        document("chain", _moved(-1)), "chain", FAIL, ("coverage", "multiset", "aggregates", "epilogue")
    ),
    "a catalog of other ids": Tampering(document("chain", _other_catalog), "chain", FAIL),
    "a count of an epoch one off": Tampering(document("chain", _one_more_late), "chain", FAIL),
    "a sink's rows not claimed": Tampering(document("chain", _no_rows_claimed), "chain", FAIL),
    "an epoch told otherwise": Tampering(history(_published_otherwise), "chain", FAIL),
    "an epoch that the chain does not hold": Tampering(history(_published_too_much), "epochs", UNKNOWN),
    "a publication not told": Tampering(
        history(_without(lambda row: row.get("state") == "published" and row["epoch"] == 1)),
        "epochs",
        UNKNOWN,
        ("faults", "history"),
    ),
    "a declaration not told": Tampering(
        history(_without(lambda row: row.get("state") == "declared" and row["epoch"] == 1)),
        "epochs",
        UNKNOWN,
        ("faults", "history"),
    ),
    "a start not told": Tampering(
        history(_without(lambda row: row.get("state") == "started" and row["generation"] == 1)), "epochs", UNKNOWN
    ),
    "a phase not told": Tampering(history(_without(lambda row: row.get("phase") == "drain")), "history", UNKNOWN),
    "a fault not told": Tampering(history(_without(lambda row: row["event"] == "fault")), "faults", UNKNOWN),
    "a fault that replaced nobody": Tampering(
        history(lambda rows: _fault(rows).update(process_after=_fault(rows)["process_before"])), "faults", UNKNOWN
    ),
    "a fault without anything published after it": Tampering(
        history(_nothing_published_after), "faults", UNKNOWN, ("epochs", "minimum")
    ),
    "a fault undone before it came": Tampering(
        history(lambda rows: _fault(rows).update(healed_at=_fault(rows)["injected_at"] - 1)), "faults", UNKNOWN
    ),
}


@pytest.fixture(scope="module", params=["fabricated", *(path.name for path in RECORDED)])
def clean(request: pytest.FixtureRequest, pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clean run, watched by a reader; not to be changed."""
    folder = tmp_path_factory.mktemp("clean")
    if request.param == "fabricated":
        return Path(shutil.copytree(pristine, folder / pristine.name))
    return unpacked(RECORDED[0].with_name(request.param), folder)


def test_the_run_that_is_tampered_with_passes(clean: Path) -> None:
    expect_run(clean, PASS, "monotone")


@pytest.mark.parametrize("what", TAMPERINGS)
def test_a_tampering_is_caught_by_the_one_whose_matter_it_is(clean: Path, tmp_path: Path, what: str) -> None:
    tampering = TAMPERINGS[what]
    run = Path(shutil.copytree(clean, tmp_path / clean.name))
    tampering.does(run)
    results = expect(run, tampering.verdict, tampering.caught_by)
    objecting = {oracle.name for oracle in results.oracles if oracle.verdict is not Verdict.PASS}
    assert objecting <= {tampering.caught_by, *tampering.others}, results.reasons


def test_a_history_that_counts_its_lines_misses_any_of_them(run: Path) -> None:
    """Some lines say nothing that another one would miss: the last tells how many there were."""
    history(lambda rows: rows[-1].update(lines=len(rows) - 1))(run)
    assert judge(run, write=False).verdict is PASS
    for at, row in enumerate(lines_of(run / "history.jsonl")[:-1]):
        history(lambda rows, at=at: rows.pop(at))(run)  # type: ignore[misc]
        assert judge(run, write=False).verdict is UNKNOWN, row
        history(lambda rows, at=at, row=row: rows.insert(at, row))(run)  # type: ignore[misc]


def test_a_recovery_is_measured_and_not_believed(run: Path) -> None:
    due = [fault.recovered_s for fault in judge(run, write=False).faults]
    history(lambda rows: _fault(rows).update(recovered_s=0.001, replaced_s=0.001))(run)
    assert [fault.recovered_s for fault in judge(run, write=False).faults] == due
    assert 0.001 not in due
