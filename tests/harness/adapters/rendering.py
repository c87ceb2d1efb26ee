"""A chart as objects: rendered by helm, marked as a run's own, without what the run does itself."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.errors import UserError

RUN_LABEL = "effectively-once/run"
RENDER_S = 60.0
MADE_BY_THE_RUN = ("Job",)
"""The harness makes the topics of a run itself, before it starts anything: a job would only take time."""

Object = dict[str, Any]


class RenderError(UserError):
    """helm does not render the chart; the message holds what it said."""


@dataclass(frozen=True)
class Chart:
    """A chart of the checkout, and the helm to render it with."""

    helm: Path
    folder: Path

    def render(self, values: Mapping[str, Any], namespace: str) -> list[Object]:
        """The chart's objects for these values. Raises RenderError."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(values, file)
            file.flush()
            argv = [
                str(self.helm),
                "template",
                str(values["name"]),
                str(self.folder),
                "--namespace",
                namespace,
                "--values",
                file.name,
            ]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, timeout=RENDER_S, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise RenderError(f"helm cannot be run: {error}; `make tools ALL=1` makes one") from error
        if done.returncode != 0:
            raise RenderError(f"chart {self.folder.name} is not rendered: {done.stderr.strip()[-500:]}")
        return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_run(objects: Sequence[Object], run: str, namespace: str, *, jobs: bool = False) -> list[Object]:
    """The objects that a run creates, each in the namespace and with the label that it is found and deleted by.

    The operator hands the labels of a SparkApplication on to its pods.

    Args:
        objects: of the chart.
        run: value of the label.
        namespace: of pipelines.
        jobs: whether those are wanted that a run has no use for where it makes topics itself.
    """
    marked: list[Object] = []
    for one in objects:
        if one["kind"] in MADE_BY_THE_RUN and not jobs:
            continue
        metadata = one["metadata"]
        labels = {**(metadata.get("labels") or {}), RUN_LABEL: run}
        marked.append({**one, "metadata": {**metadata, "namespace": namespace, "labels": labels}})
    return marked


def values_for(
    deployed: Mapping[str, Any],
    name: str,
    settings: Mapping[str, Any],
    *,
    module: str | None = None,
    extra_files: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A deployed pipeline's values, changed into those of a run's own pipeline: same image, resources and cluster.

    Args:
        deployed: values of the chart `streaming-pipeline`.
        name: of the SparkApplication.
        settings: the pipeline's settings, its whole file.
        module: another job.
        extra_files: files of that job.
    """
    own = {
        "name": name,
        "settings": dict(settings),
        "announce": True,
        "suspend": False,
        "ui": False,
        "eventLog": {"enabled": False},
        "source": {**deployed.get("source", {}), "create": False},
        "extraFiles": dict(extra_files or {}),
    }
    return {**deployed, **own, **({"module": module} if module else {})}


def lay_over(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a chart, some of them changed; of a group the entries that are named."""
    return {
        **values,
        **{
            name: {**(values.get(name) or {}), **own} if isinstance(own, Mapping) else own
            for name, own in changes.items()
        },
    }
