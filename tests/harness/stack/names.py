"""Names of what belongs to one run on a cluster that others use as well."""

from __future__ import annotations


def identity(run: str, prefix: str) -> str:
    """Name of a pipeline of a run: `uc_` and the digits of the run's name, so that two runs never share one."""
    digits = "".join(one for one in run.partition("/")[0] if one.isdigit())
    return f"{prefix}_{digits}"[:38]


def names(run: str, prefix: str) -> tuple[str, str]:
    """Names of a pipeline of a run and of its source topic."""
    pipeline = identity(run, prefix)
    return pipeline, f"events_{pipeline}"


def kubernetes_name(pipeline: str) -> str:
    """Name of a pipeline as Kubernetes takes it."""
    return pipeline.replace("_", "-")
