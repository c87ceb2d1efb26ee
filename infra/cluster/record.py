"""What this state directory knows of its cluster: that it is being made, or that it is ready, and from which image."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Record:
    """One cluster of ours."""

    state: Literal["creating", "ready"]
    image: str
    nodes: int
    published: bool = False
    """The image is kind's own, with a pod network in it. A cluster stays with the image that it was made from."""
    brokers: int = 1
    """A quorum keeps the size that its volumes were formatted for."""

    def write(self, path: Path) -> None:
        """Keep it."""
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(path: Path) -> Record | None:
        """What is kept, None when nothing readable is."""
        try:
            return Record(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None


Action = Literal["use", "create", "replace", "foreign", "other shape"]


def decide(known: Record | None, containers: dict[str, str], nodes: int) -> Action:
    """Say what to do about the cluster: a pure function of the record, the containers' states and what is wanted.

    An interrupted creation, and one whose engine was restarted, is made anew; containers without a record belong to
    somebody else.
    """
    if not containers:
        return "create"
    if known is None:
        return "foreign"
    if known.state != "ready" or any(state != "running" for state in containers.values()):
        return "replace"
    return "use" if len(containers) == nodes else "other shape"
