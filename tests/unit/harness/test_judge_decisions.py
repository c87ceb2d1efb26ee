"""A run that had nothing to decide at a bound, or only fresh copies, has shown nothing of catalog and watermark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.tamper import bind, watch


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (-1, "no record was accepted 1 ms before its window closed"),
        (0, "no record was late by nothing"),
        (1, "no record was late by 1 ms"),
        ("copies", "copies were dropped 2 or more epochs after their original, due are 10"),
        ("others", "no record had the id of another user's"),
        ("kept", "copies were dropped after the restart with the checkpoint kept, due are 10"),
        ("deleted", "copies were dropped after the restart with the checkpoint deleted, due are 10"),
    ],
)
def test_what_was_not_decided_makes_a_run_unknown(tmp_path: Path, missing: object, says: str) -> None:
    results = judge(bind(watch(fabricate(tmp_path / "20261120-170301-7", without=(missing,)))), write=False)
    assert results.verdict is Verdict.UNKNOWN, results.reasons
    assert [one.name for one in results.oracles if one.verdict is not Verdict.PASS] == ["decisions"]
    assert any(says in line for line in results.oracle("decisions").evidence)
