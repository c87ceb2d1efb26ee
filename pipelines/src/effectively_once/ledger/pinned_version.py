"""The version that an epoch is pinned to: the wheel that declared it, and what that ran on (R3)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from effectively_once.errors import VersionError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.due_epoch import due
from effectively_once.ledger.head import Head

UNKNOWN: Final[Mapping[str, str]] = MappingProxyType({})
"""A runtime that is not told."""


def same_version(head: Head, wheel_digest: str, where: str, runtime: Mapping[str, str] = UNKNOWN) -> None:
    """Refuse to finish an epoch that another version of the pipeline declared (R3), unless it was abandoned.

    So is one that repairs the last: which rows are of which shard must not change between the two. Of a divided epoch
    any version takes the rest, as its shards know what came to them (`Declaration.came`). The version is the wheel and
    what it runs on; a component that one of both does not name is not compared.

    Raises:
        VersionError: naming both digests, or what else differs.

    """
    declared = due(head)
    if head.declared is None and declared is not None and declared.is_rest:
        # It is declared anew, and each shard sees to it that it has the rows of before.
        return
    if declared is not None and not declared.is_abandoned and declared.wheel_digest != wheel_digest:
        raise VersionError(
            f"epoch {declared.epoch} was declared by wheel {declared.wheel_digest[:12]}, "
            f"this is wheel {wheel_digest[:12]}",
            where,
            "Start the pipeline once with the wheel that declared it and stop it in order; then start this version. "
            "If that wheel cannot finish it: `effectively-once abandon`.",
        )
    if declared is not None and not declared.is_abandoned:
        _same_runtime(declared, runtime, where)


def _same_runtime(declared: Declaration, runtime: Mapping[str, str], where: str) -> None:
    pinned = declared.runtime
    differ = [name for name in sorted({*pinned} & {*runtime}) if pinned[name] != runtime[name]]
    if differ:
        then, now = (", ".join(f"{name} {had[name]}" for name in differ) for had in (pinned, runtime))
        raise VersionError(
            f"epoch {declared.epoch} was declared on {then}, this is {now}",
            where,
            "Start the pipeline once with the image or environment that declared it and stop it in order; then start "
            "this one. If that cannot be had: `effectively-once abandon`.",
        )
