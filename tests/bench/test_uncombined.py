"""Without combiner lifting: whoever is handed the pipeline sends rows, and they come to the same aggregates."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa

from effectively_once import Count, Sum
from effectively_once.state import windows as state
from effectively_once.state.accumulators import accumulators
from effectively_once.state.lateness import Windows
from infra.cluster.access import CHECKOUT

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


def test_a_worker_that_is_handed_the_pipeline_does_not_combine() -> None:
    assert _in_a_worker("uncombined") == "True"


def test_a_worker_that_is_handed_another_pipeline_does() -> None:
    assert _in_a_worker("unfused_job") == "False"


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
