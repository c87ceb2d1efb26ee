"""Any job, with a thread beside it that ends a task or a stage by Spark's own API when asked to.

`python -m tests.harness.with_requests SETTINGS.json`. The job is the module that the settings name. Requests are files
in the folder that the environment names: `asked.json` is taken away, and `answer.json` written twice: when Spark was
asked, and again when it is known what became of it. The file also runs alone, in a pod: it imports nothing of this
repository.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODULE, ALONE = "tests.harness.with_requests", "with_requests"
"""Its name in this checkout, and where it is a file alone."""
VARIABLE = "EFFECTIVELY_ONCE_REQUESTS"
TASK_KILL, STAGE_CANCEL = "task_kill", "stage_cancel"
"""What is asked for, as plans and histories name it."""
ASKED, ANSWER = "asked.json", "answer.json"
MISSED, ENDED, AT, SAYS, BY = "missed", "ended", "at", "says", "by"
REASON = "asked for by the harness"
POLL_S, OUTCOME_S = 0.02, 60.0
MANY = 1_000
RUNS, KILLED, FAILED = "RUNNING", "KILLED", "FAILED"
"""What Spark's store of states says of tasks and stages."""

Answer = dict[str, Any]


def end_task(spark: Any, draw: int, tell: Callable[[Answer], None]) -> None:
    """Kill one of the task attempts that run. `spark` is the Python SparkContext."""
    jvm = spark._jsc.sc()
    there = [(stage, attempt, task) for stage, attempt in _stages(spark) for task in _tasks(jvm, stage, attempt)]
    there = [one for one in there if one[2].status() == RUNS]
    if not there:
        tell({MISSED: "no task runs"})
        return
    stage, attempt, victim = there[draw % len(there)]
    number, index = victim.taskId(), victim.index()
    if not jvm.killTaskAttempt(number, True, REASON):
        tell({MISSED: f"Spark does not kill task {number}"})
        return
    told = {ENDED: f"task {number} of stage {stage}.{attempt}", AT: _now_ms()}
    tell(told)

    def outcome() -> Answer | None:
        tasks = _tasks(jvm, stage, attempt)
        says = next((one.status() for one in tasks if one.taskId() == number), RUNS)
        by = next((one.taskId() for one in tasks if one.index() == index and one.taskId() > number), None)
        over = says not in (RUNS, KILLED) or (says == KILLED and by is not None)
        return {SAYS: says, BY: by and f"task {by} of stage {stage}.{attempt}"} if over else None

    tell({**told, **_await_outcome(outcome)})


def cancel_stage(spark: Any, draw: int, tell: Callable[[Answer], None]) -> None:
    """Cancel one of the stages that run."""
    jvm = spark._jsc.sc()
    there = _stages(spark)
    if not there:
        tell({MISSED: "no stage runs"})
        return
    stage, attempt = there[draw % len(there)]
    jvm.cancelStage(stage, REASON)
    told = {ENDED: f"stage {stage}.{attempt}", AT: _now_ms()}
    tell(told)

    def outcome() -> Answer | None:
        says = jvm.statusStore().lastStageAttempt(stage).status().toString()
        later = [one for one in _stages(spark) if one[0] > stage]
        over = says not in ("ACTIVE", "PENDING") and (says != FAILED or later)
        return {SAYS: says, BY: f"stage {later[0][0]}.{later[0][1]}" if later else None} if over else None

    tell({**told, **_await_outcome(outcome)})


def serve(folder: Path, context: Callable[[], Any], ended: threading.Event) -> None:
    """Take requests until the end.

    Args:
        folder: of requests and answers.
        context: the SparkContext; None before there is one.
        ended: set from outside.
    """
    ways = {TASK_KILL: end_task, STAGE_CANCEL: cancel_stage}
    while not ended.wait(POLL_S):
        try:
            asked = json.loads((folder / ASKED).read_text())
            (folder / ASKED).unlink()
        except FileNotFoundError:
            continue

        def tell(answer: Answer, number: int = asked["number"]) -> None:
            draft = folder / f"draft-{os.getpid()}"
            draft.write_text(json.dumps({**answer, "number": number, "driver": os.getpid()}))
            draft.rename(folder / ANSWER)

        try:
            spark = context()
            if spark is None:
                tell({MISSED: "there is no session"})
            else:
                ways[asked["kind"]](spark, asked["draw"], tell)
        except Exception as error:
            # Spark may end at any moment here; the harness tries again.
            tell({MISSED: f"{type(error).__name__}: {error}"[:300]})


def _stages(spark: Any) -> list[tuple[int, int]]:
    """Stages that run, with the number of their attempt."""
    tracker = spark.statusTracker()
    found = [(stage, tracker.getStageInfo(stage)) for stage in sorted(tracker.getActiveStageIds())]
    return [(stage, info.currentAttemptId) for stage, info in found if info is not None]


def _tasks(jvm: Any, stage: int, attempt: int) -> list[Any]:
    found = jvm.statusStore().taskList(stage, attempt, MANY)
    return [found.apply(number) for number in range(found.size())]


def _await_outcome(outcome: Callable[[], Answer | None]) -> Answer:
    deadline = time.monotonic() + OUTCOME_S
    while (found := outcome()) is None:
        if time.monotonic() > deadline:
            return {SAYS: f"nothing within {OUTCOME_S:.0f} s", BY: None}
        time.sleep(POLL_S)
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _context() -> Any:
    # The job brings it: no import here, which would be in the way of the job's own.
    found = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return getattr(found, "_active_spark_context", None)


if __name__ == "__main__":
    if name := os.environ.get(VARIABLE):
        threading.Thread(target=serve, args=(Path(name), _context, threading.Event()), daemon=True).start()
    runpy.run_module(json.loads(Path(sys.argv[1]).read_text())["job"], run_name="__main__", alter_sys=True)
