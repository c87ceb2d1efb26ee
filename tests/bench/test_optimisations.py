"""What was kept of fusion and combiner lifting: ratios by pairs of one round, and no answer that differs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Count, Sum
from effectively_once.state import windows as state
from effectively_once.state.accumulators import accumulators
from effectively_once.state.lateness import Windows
from infra.cluster.access import CHECKOUT
from tests.bench.errors import BenchError
from tests.bench.optimisations_runs import compare
from tests.bench.optimisations_table import divide_by_round, plans, text


def sample(arm: str, number: int, rows_per_s: int, size: int, part: str = "query") -> dict[str, Any]:
    return {
        "part": part,
        "users": 1_000,
        "arm": arm,
        "round": number,
        "rows_per_s": rows_per_s,
        "stages": 3,
        "shuffled_bytes": size,
        "shuffled_records": size // 10,
        "cpu_s": 2.0,
        "load_before": number + 0.8,
        **({} if number else {"plan": ["Scan", f"Exchange of {arm}"]}),
    }


SAMPLES = [
    sample("not combined", 0, 50, 3_000),
    sample("as it is", 0, 100, 1_000),
    sample("as it is", 1, 20, 1_000),
    sample("not combined", 1, 20, 3_000),
    sample("not combined", 2, 8, 3_000),
    sample("as it is", 2, 12, 1_000),
]


def test_rounds_are_divided_one_by_one() -> None:
    ours, theirs = ([one for one in SAMPLES if one["arm"] == arm] for arm in ("as it is", "not combined"))
    assert divide_by_round(ours, theirs, "rows_per_s") == "1.50 (1.00 to 2.00)"


def test_the_tables_hold_each_variant_its_ratios_and_the_plan_of_the_first_round() -> None:
    told, figures = text([*SAMPLES, sample("as it is", 0, 7, 50, part="epoch")], records=500)
    assert "| as it is | 3 | 1,000 | 100 | 2.00 | 20 (12 to 100) | 2.0 (2.0 to 2.0) |" in told
    assert told.index("| as it is |") < told.index("| not combined |")
    assert "combiner lifting, on / off by pairs of one round: rows/s 1.50 (1.00 to 2.00)" in told
    assert "bytes shuffled off / on 3.00 (3.00 to 3.00)" in told
    assert "load of the machine before a sample: 1 to 3" in told
    assert "fusion, on / off" not in told, "no round of it was taken"
    assert "## query, not combined\n\n```\nstage 1\n    Scan\nstage 2\n    Exchange of not combined\n```" in plans(
        SAMPLES
    )
    assert figures["query, 1,000 users, as it is"] == [100, 20, 12]
    assert figures["epoch, 1,000 users, as it is"] == [7]


def read_arm(arm: str, *found: list[int]) -> dict[str, Any]:
    return {"arm": arm, "round": 0, "found": [*found]}


def test_a_variant_with_other_counts_is_no_measurement() -> None:
    right, truth = [60_000, 5, 2, 77], {60_000: 5}
    compare([read_arm("as it is", right), read_arm("not fused", right)], truth)
    with pytest.raises(BenchError, match="not fused, round 0: other counts"):
        compare([read_arm("as it is", right), read_arm("not fused", [60_000, 5, 2, 78])], truth)
    with pytest.raises(BenchError, match="as it is, round 0: other counts"):
        compare([read_arm("as it is", [60_000, 4, 2, 77])], truth)


# In processes of their own: here it would stay switched off for every test that follows.
HANDS = "from pyspark import cloudpickle; from tests.bench.{0} import pipeline; import sys; sys.stdout.buffer.write(cloudpickle.dumps(pipeline))"  # noqa: E501
TAKES = "import sys, pickle; pickle.loads(sys.stdin.buffer.read()); from effectively_once.state import windows; print(windows.partial is windows.place)"  # noqa: E501


def _in_a_worker(module: str) -> str:
    path = {"PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"}
    handed = subprocess.run([sys.executable, "-c", HANDS.format(module)], env=path, capture_output=True, check=True)
    taken = subprocess.run(
        [sys.executable, "-c", TAKES], env=path, input=handed.stdout, capture_output=True, check=True
    )
    return taken.stdout.decode().strip()


@pytest.mark.parametrize(("module", "sends_rows"), [("uncombined", "True"), ("unfused_job", "False")])
@pytest.mark.thinned(2)
def test_a_worker_combines_unless_it_is_handed_the_pipeline_that_does_not(module: str, sends_rows: str) -> None:
    assert _in_a_worker(module) == sends_rows


def test_rows_come_to_the_same_aggregates_before_the_shuffle_or_behind_it() -> None:
    windows = Windows(60_000, 0)
    rows = pa.table(
        {
            "user": ["a", "b", "a", "a"],
            "event_time_ms": pa.array([1, 2, 59_999, 60_000], pa.int64()),
            "cents": pa.array([5, 7, 11, 13], pa.int64()),
        }
    )
    values = accumulators({"count": Count(), "sum": Sum("cents")}, rows.schema)
    each = state.place(rows, ("user",), values, windows)
    assert (each.num_rows, each["count"].to_pylist()) == (4, [1, 1, 1, 1])
    combined = state.partial(rows, ("user",), values, windows)
    assert combined.num_rows == 3
    assert state.group_rows(each, state.merges(values)).equals(combined)
