"""A pipeline that its author defined, in pods: its package as files beside the library, and its own settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from effectively_once.pipeline.settings import PipelineSettings
from infra.embedded.job import PLACE, RunError
from infra.toolchain.cache import digest
from tests.harness.definition.asked import Definition
from tests.harness.subject import Subject

MOST_BYTES = 900_000
"""What a ConfigMap holds, with some to spare."""
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_NAMES = ("pipeline", "topic")


def values_of(definition: Definition, subject: Subject, deployed: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the chart, laid over those of a deployed pipeline whose image and resources are taken.

    Args:
        definition: the pipeline.
        subject: what is sent.
        deployed: values of the deployed pipeline.

    Raises:
        RunError: its package cannot be brought along.
    """
    # What the deployed one is set to otherwise is its own matter; a run has addresses and names of its own.
    usual = {name: one.default for name, one in PipelineSettings.model_fields.items() if not one.is_required()}
    settings = {**usual, **definition.settings, "epoch_rows_max": subject.epoch_rows_max}
    own = {name: value for name, value in settings.items() if name not in (*PLACE, *_NAMES)}
    values: dict[str, Any] = {"module": None, "service": None, "settings": own}
    if (wheel := definition.job.wheel) is not None:
        pinned = digest({"library": str(deployed.get("wheelDigest")), "job": wheel.sha256})
        values |= {"wheelDigest": pinned, "extraFiles": files_of(definition.job.name, wheel.installed)}
    return values


def files_of(name: str, installed: Path) -> dict[str, str]:
    """The files of a package below a folder, under the names by which the chart puts them back into folders.

    Raises:
        RunError: a file is none that a ConfigMap holds under such a name, or they are too many.
    """
    way_out = f"build an image that has it, deploy {name} with it (docs/how-to/your-own-pipeline.md), and run again"
    files: dict[str, str] = {}
    for path in sorted(one for one in installed.rglob("*") if one.is_file()):
        below = path.relative_to(installed)
        if below.parts[0].endswith(".dist-info") or "__pycache__" in below.parts:
            continue
        key = ".".join(below.parts)
        stem, _, suffix = key.rpartition(".")
        try:
            if not _KEY.fullmatch(key) or f"{stem.replace('.', '/')}.{suffix}" != below.as_posix():
                raise RunError(f"{name}: {below} cannot be brought into a pod under its name: {way_out}")
            files[key] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise RunError(f"{name}: {below} is no text, and cannot be brought into a pod: {way_out}") from error
    if (size := sum(len(text.encode()) for text in files.values())) > MOST_BYTES:
        raise RunError(f"{name}: its {size:,} bytes are more than a ConfigMap holds: {way_out}")
    return files
