"""Builds the second judge, and asks it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict

from infra.toolchain.cache import Cache
from infra.toolchain.go_tools import GoTool, build
from tests.harness.results import Output, Verdict

TOOL = GoTool("second-judge", {"second-judge": "."}, 5, source=Path(__file__).parent)
DEADLINE_S = 600.0


class Answer(BaseModel):
    """What it says of a run: the numbers of each sink, and complaints in sentences."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Verdict
    sinks: dict[str, Output]
    reasons: tuple[str, ...]


def ask(cache: Cache, run: Path) -> Answer:
    """Judge a run directory, or that of a control.

    Raises:
        ToolchainError: it cannot be built.
        ValueError: it does not answer as it should.
        subprocess.TimeoutExpired: nor in time.
    """
    words = [build(cache, TOOL) / TOOL.name, run]
    done = subprocess.run(words, capture_output=True, timeout=DEADLINE_S, check=False)
    try:
        answer = Answer.model_validate(orjson.loads(done.stdout))
    except ValueError as error:
        said = done.stderr.decode(errors="replace")[-200:]
        raise ValueError(f"the second judge gives no answer ({error}; exit {done.returncode}): {said}") from error
    if done.returncode != answer.verdict.exit_code:
        raise ValueError(f"the second judge says {answer.verdict} and exits with {done.returncode}")
    return answer
