"""What a driver runs, as it announces it: a run's manifest, which says the same, is compared with it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyspark

from effectively_once.driver.runtime import java_version
from effectively_once.driver.version import package_digests
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import digest


def provenance_of(job: Job) -> dict[str, Any]:
    """Fields of the announcement.

    `code`: package -> digest of its code (64 hex digits). `settings`: digest of all settings, not only of those that
    state depends on (32 hex digits). `versions`: component -> version, of those that can be told without a JVM.
    """
    return {
        "code": package_digests(*job.pipeline.functions),
        "settings": digest(job.settings.model_dump(mode="json")),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    found = {"library": _library(), "python": platform.python_version(), "spark": pyspark.__version__}
    found["java"] = java_version()
    return {name: one for name, one in found.items() if one is not None}


def _library() -> str | None:
    """Return the version of the wheel; None where the code was not installed from one."""
    try:
        return version("effectively-once")
    except PackageNotFoundError:
        return None
