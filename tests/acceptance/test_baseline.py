"""The same run without a fault."""

from __future__ import annotations

import pytest

from tests.harness.results import Results, Verdict


def test_baseline_without_a_fault_is_exact(results: Results) -> None:
    """Without a fault every output is exact, by the same oracles."""
    found = [control for control in results.controls if control.must == "pass"]
    if not found:
        pytest.skip("the suite of this run has no baseline; SUITE=all has one")
    assert [control.verdict for control in found] == [Verdict.PASS], results.oracle("controls").says
