"""A disk that is lost: whether whoever came back has another one, which was empty, and got its contents again."""

from __future__ import annotations

from tests.harness.results import Fault

DISK_LOST = "disk_lost"
"""The kind of fault under which one copy of a server loses its pod and its volume."""


def complaint(fault: Fault) -> str | None:
    """Tell what of its own evidence is missing, or shows the former volume."""
    if not fault.volumes or not fault.volumes.get("before") or not fault.volumes.get("after"):
        return "its volume before and after it is not known"
    if fault.volumes["before"] == fault.volumes["after"]:
        return f"it came back with the same volume, {fault.volumes['after']}"
    if fault.healed_at is None:
        return "that its copies were complete again is not known"
    return None
