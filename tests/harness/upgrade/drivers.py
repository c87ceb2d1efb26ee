"""Drivers of a pipeline that Pulumi deployed: each is followed by the next, by the operator or by an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.adapters.pod_log import DRIVER
from tests.harness.adapters.rendering import values_for
from tests.harness.adapters.supervised_pods import SupervisedPods


@dataclass
class DeployedPods(SupervisedPods):
    """Drivers as pods; the first start is an update of the stack, the others, of the epilogue, are as in any run.

    Attributes:
        deploy: updates the stack, and writes into the file that it is given what the driver reads.
        deployed: values of the chart, as the stack has them now.
        changing: whether changes are still made.
    """

    deploy: Callable[[Path], None] = lambda _: None
    deployed: Callable[[], Mapping[str, Any]] = dict
    changing: Callable[[], bool] = lambda: False
    _is_deployed: bool = False

    @property
    def _selector(self) -> str:
        """Of its pods: those of the stack do not have the run's label."""
        return f"sparkoperator.k8s.io/app-name={self.name}"

    def start(self, name: str, settings: Path, *arguments: str) -> None:
        """Have the stack deploy the pipeline; after that apply it with the stack's image, and these settings."""
        if self._is_deployed:
            super().start(name, settings, *arguments)
            return
        self.deploy(settings)
        self._is_deployed = self._started = True
        with self._lock:
            self._wanted = True

    def kill(self) -> str:
        """SIGKILL the driver; the next ones are of the image that the stack has by now."""
        self.values = values_for(self.deployed(), self.name, {})
        return super().kill()

    def alive(self) -> str | None:
        """None while changes are made, which wait for drivers themselves, or a driver runs, or is about to."""
        if not self.changing():
            return super().alive()
        with self._lock:
            # Each update ends a driver, which is no news.
            self._struck |= {pod.uid for pod in self.log.pods(DRIVER) if pod.ended}
            return self._given_up

    def give_up(self, why: str) -> None:
        """Note that no driver goes on."""
        with self._lock:
            self._given_up = why
