"""What the same strikes do to pipelines without the protocol."""

from __future__ import annotations

from tests.harness.controls.names import CONTROLS
from tests.harness.results import Results, Verdict


def test_negative_controls_fail(results: Results) -> None:
    """Spark's own Kafka sink, and appending without a progress mark, double records when their executors are killed."""
    found = {control.name: control.verdict for control in results.controls if control.must == "fail"}
    assert found == dict.fromkeys(CONTROLS, Verdict.FAIL), results.oracle("controls").says
