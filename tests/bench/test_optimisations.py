"""Tables of what was kept of fusion and combiner lifting: ratios by pairs of one round, and no answer that differs."""

from __future__ import annotations

from typing import Any

import pytest

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
