"""Builds the second judge, and asks it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import orjson

from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.go_tools import GoTool, build
from tests.harness.results import Answer

TOOL = GoTool("second-judge", {"second-judge": "."}, 5, source=Path(__file__).parent)
DEADLINE_S = 600.0
# It keeps nearly all that it reads, and is soon done: a third of its time went into looking for what it does not keep.
# The first judge needs a core meanwhile, and takes longer.
LIMITS = {"GOGC": "400", "GOMEMLIMIT": "3GiB", "GOMAXPROCS": "1"}


def build_program() -> Path:
    """Return the program, built at most once per source. Raises ToolchainError."""
    return build(Cache(cache_root()), TOOL) / TOOL.name


def ask(run: Path) -> Answer:
    """Judge a run directory, or that of a control.

    Raises:
        ToolchainError: it cannot be built.
        ValueError: it does not answer as it should.
        subprocess.TimeoutExpired: nor in time.
    """
    done = subprocess.run(
        [build_program(), run],
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
        env={**LIMITS, **os.environ},
    )
    try:
        answer = Answer.model_validate(orjson.loads(done.stdout))
    except ValueError as error:
        said = done.stderr.decode(errors="replace")[-200:]
        raise ValueError(f"the second judge gives no answer ({error}; exit {done.returncode}): {said}") from error
    if done.returncode != answer.verdict.exit_code:
        raise ValueError(f"the second judge says {answer.verdict} and exits with {done.returncode}")
    return answer
