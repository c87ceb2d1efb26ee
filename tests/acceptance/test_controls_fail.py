"""What the same strikes do to pipelines without the protocol."""

from __future__ import annotations

from tests.harness.controls.names import QUICK
from tests.harness.results import Results, Verdict
from tests.harness.run_directory import RunDirectory


def test_negative_controls_fail(recorded: RunDirectory, results: Results) -> None:
    """Each pipeline without one guard of the protocol shows what that guard prevents, and the oracles find it."""
    planned = [control.name for control in recorded.manifest().controls if control.must == "fail"]
    assert {one.name for one in QUICK} <= {*planned}
    found = {control.name: control.verdict for control in results.controls if control.must == "fail"}
    assert found == dict.fromkeys(planned, Verdict.FAIL), results.oracle("controls").says
