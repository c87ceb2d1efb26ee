"""The version that an epoch is pinned to: the wheel that declared it, and what that ran on (R3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from effectively_once.errors import VersionError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.due_epoch import due
from effectively_once.ledger.head import Head

UNKNOWN: Final[Mapping[str, str]] = MappingProxyType({})
"""A runtime that is not told."""
IMAGE: Final = "image"
"""Of a runtime: the image that it is of. An operator is told it, and it is not compared, as each registry has a name of
its own for the same image. It is no field of its own: a version before this one reads what it does not compare.
"""


def same_version(head: Head, wheel_digest: str, where: str, runtime: Mapping[str, str] = UNKNOWN) -> None:
    """Refuse to finish an epoch that another version of the pipeline declared (R3), unless it was abandoned.

    So is one that repairs the last: which rows are of which shard must not change between the two. Of a divided epoch
    any version takes the rest, as its shards know what came to them (`Declaration.came`). The version is the wheel and
    what it runs on; a component that one of both does not name is not compared.

    Raises:
        VersionError: naming both wheels, what differs of the runtime, and how to bring the other version back.

    """
    declared = due(head)
    if head.declared is None and declared is not None and declared.is_rest:
        # It is declared anew, and each shard sees to it that it has the rows of before.
        return
    if declared is None or declared.is_abandoned:
        return
    pinned, image = declared.runtime, declared.runtime.get(IMAGE)
    differ = [name for name in sorted({*pinned} & {*runtime} - {IMAGE}) if pinned[name] != runtime[name]]
    if declared.wheel_digest != wheel_digest or differ:
        then, now = _name(declared.wheel_digest, pinned, differ), _name(wheel_digest, runtime, differ)
        raise VersionError(
            f"epoch {declared.epoch} was declared by {then}, this is {now}",
            where,
            (
                f"Its image finishes it: `pulumi config set --path pipelines.{head.pipeline}.image {image} && pulumi "
                "up` (there the pipeline has its name without `pipeline_prefix`; `extra_files` as they were). Then put "
                "the setting back, and `pulumi up`."
                if image
                else "Run once more what declared it, until the epoch is recorded: with `make run` your files as they "
                "were, on a cluster the former image (`pipelines.<name>.image`), elsewhere that wheel on that runtime. "
                "Then start this version."
            )
            + " If that cannot be had, or cannot finish it: `effectively-once abandon`.",
        )


def describe(declared: Declaration) -> str:
    """Name the version that declared an epoch, for an operator."""
    image = declared.runtime.get(IMAGE)
    return f"wheel {declared.wheel_digest[:12]}" + (f" of image {image}" if image else "")


def _name(wheel_digest: str, runtime: Mapping[str, str], differ: Sequence[str]) -> str:
    on = ", ".join(f"{name} {runtime[name]}" for name in differ)
    return f"wheel {wheel_digest[:12]}" + (f" on {on}" if on else "")
