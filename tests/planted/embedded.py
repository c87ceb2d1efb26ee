"""Plays a small campaign on the embedded stack against a copy of the checkout: what only the judge of a run can see."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from infra.toolchain.prepare import CHECKOUT
from tests.planted.limits import GIB, Limits, run_limited
from tests.planted.sighting import Sighting
from tests.planted.suite import LINE_LENGTH

PARTS = (
    "Makefile",
    "charts",
    "images",
    "infra",
    "pipelines",
    "tests",
    "pyproject.toml",
    "requirements.in",
    "requirements.lock",
)
"""What a run needs of the checkout."""
RECORDS, FAULTS = 60_000, "executor-kill,driver-kill"
LIMITS = Limits(seconds=900.0, resident_bytes=12 * GIB, address_bytes=None)


def copy_checkout(to: Path) -> None:
    """Copy what a run needs, without compiled leftovers."""
    for part in PARTS:
        if (CHECKOUT / part).is_dir():
            shutil.copytree(CHECKOUT / part, to / part, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy2(CHECKOUT / part, to / part)


def play_campaign(checkout: Path, seed: int, scratch: Path, limits: Limits = LIMITS) -> Sighting:
    """Strike a pipeline of the copy, and read what its judge said.

    A verdict that is no pass is not enough: the bug is caught when an oracle refutes the run.
    """
    argv = [
        sys.executable,
        "-m",
        "tests.harness.campaigns.chaos",
        "--seed",
        str(seed),
        "--records",
        str(RECORDS),
        "--faults",
        FAULTS,
        "--no-controls",
    ]
    env = {"PYTHONPATH": os.pathsep.join((str(checkout), str(checkout / "pipelines" / "src")))}
    ended = run_limited(argv, cwd=checkout, env=env, log=scratch / "log.txt", limits=limits)
    if ended.how != "exit":
        return Sighting(seed=seed, how=ended.how, by="the campaign did not end", draws=True, seconds=ended.seconds)
    return judged(checkout / "runs" / "latest" / "results.json", seed, round(ended.seconds, 1))


def judged(results: Path, seed: int, seconds: float) -> Sighting:
    """Return what the results of a run say."""
    try:
        told: dict[str, Any] = json.loads(results.read_text())
    except (OSError, ValueError) as error:
        return Sighting(seed=seed, how="unknown", by=f"no results: {error}", draws=True, seconds=seconds)
    refuted = next((oracle for oracle in told["oracles"] if oracle["verdict"] == "fail"), None)
    if told["verdict"] == "fail" and refuted is not None:
        evidence = refuted["evidence"] or [refuted["says"]]
        return Sighting(
            seed=seed,
            how="caught",
            by=f"oracle {refuted['name']}",
            line=str(evidence[0])[:LINE_LENGTH],
            draws=True,
            seconds=seconds,
        )
    how = "passed" if told["verdict"] == "pass" else "unknown"
    reasons = "; ".join(told.get("reasons", []))[:LINE_LENGTH]
    return Sighting.model_validate({"seed": seed, "how": how, "by": reasons, "draws": True, "seconds": seconds})
