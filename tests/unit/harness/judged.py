"""What the judge has to say of a run that was tampered with."""

from __future__ import annotations

from pathlib import Path

from tests.harness.judge.verdict import judge
from tests.harness.results import Oracle, Results, Verdict
from tests.second_judge.program import ask

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


def oracle_of(run: Path, name: str) -> Oracle:
    return judge(run, write=False).oracle(name)


def expect(run: Path, verdict: Verdict, oracle: str, says: str = "") -> Results:
    """Judge a run: the oracle has to come to this verdict and say so much of it; the results."""
    results = judge(run, write=False)
    found = results.oracle(oracle)
    assert found.verdict is verdict, results.reasons
    assert any(says in line for line in (found.says, *found.evidence)), (found.says, found.evidence)
    return results


def expect_run(run: Path, verdict: Verdict, oracle: str, says: str = "") -> Results:
    """As `expect`, and the whole run comes to the same."""
    results = expect(run, verdict, oracle, says)
    assert results.verdict is verdict, results.reasons
    assert bool(results.reasons) is (verdict is not PASS)
    return results


def expect_both(run: Path, verdict: Verdict) -> Results:
    """Both judges come to this verdict; the results of the first."""
    results = judge(run, write=False, second=ask)
    answer = ask(run)
    assert (results.verdict, answer.verdict) == (verdict, verdict), (results.reasons, answer.reasons)
    return results
