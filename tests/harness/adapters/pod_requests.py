"""Asks a driver in a pod to have Spark end a task or a stage: by the files of `with_requests`, written by exec."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.harness import with_requests
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.pod_log import Pod
from tests.harness.adapters.pod_shell import ask_shell
from tests.harness.adapters.spark_requests import Requests
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.with_requests import ALONE, ANSWER, ASKED, VARIABLE

FOLDER = "/tmp/requests"  # noqa: S108 - of a container, a volume of its own
_ASK = """
mkdir -p {folder} && cd {folder} && rm -f {answer} \\
  && printf %s '{request}' > draft && mv draft {asked} && echo asked
"""
_LOOK = """
cd {folder} 2>/dev/null && [ -f {answer} ] && cat {answer}
echo
"""
_TAKE_BACK = """
rm -f {folder}/{asked}
echo done
"""


class PodRequests(Requests):
    """Requests to the driver that runs. The next one has a folder of its own, and knows nothing of them.

    Args:
        drivers: of the pipeline.
    """

    poll_s = 0.1

    def __init__(self, drivers: SupervisedPods) -> None:
        self._drivers = drivers
        self._pod: Pod | None = None
        self._last: dict[str, Any] | None = None

    def _send(self, request: str) -> None:
        self._last, self._pod = None, self._drivers.running()
        if self._run(self._pod, _ASK, request=request) != "asked":
            raise NoProcessError(f"{self._pod.who} does not take a request")

    def _read(self) -> dict[str, Any] | None:
        """As it is now; of a pod that cannot be entered any more, as it was last."""
        # ValueError: a line that was cut when the session broke.
        with suppress(NoProcessError, ValueError):
            if (pod := self._pod) is not None and (text := self._run(pod, _LOOK)):
                # Drivers in pods have the same number in each.
                self._last = {**json.loads(text), "driver": pod.uid[:8]}
        return self._last

    def _take_back(self) -> None:
        with suppress(NoProcessError):
            if self._pod is not None:
                self._run(self._pod, _TAKE_BACK)

    def _run(self, pod: Pod, script: str, request: str = "") -> str:
        names = {"folder": FOLDER, "asked": ASKED, "answer": ANSWER, "request": request}
        return ask_shell(self._drivers.cluster, pod, script.format(**names))


def values_of_requests() -> dict[str, Any]:
    """Values of the chart by which a driver takes requests, around the job that its settings name."""
    return {
        "module": ALONE,
        "environment": {VARIABLE: FOLDER},
        "extraFiles": {f"{ALONE}.py": Path(with_requests.__file__).read_text(encoding="utf-8")},
    }
