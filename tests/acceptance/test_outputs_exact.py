"""What the sinks hold."""

from __future__ import annotations

from tests.harness.results import Results, Verdict

ORACLES = ("multiset", "aggregates", "monotone", "quiet", "chain", "epilogue", "messages")


def test_outputs_are_exact_by_every_oracle(results: Results) -> None:
    """Whichever executor pods are killed or deleted, no sink misses, doubles, invents or alters a record."""
    verdicts = {name: results.oracle(name).verdict for name in ORACLES}
    assert verdicts == dict.fromkeys(ORACLES, Verdict.PASS), results.reasons
    assert results.verdict is Verdict.PASS, results.reasons
    assert results.outputs["accepted"].observed > 0
