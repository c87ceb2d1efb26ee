"""Whether a manifest is of the run that its name and its history tell of: seed and start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.harness.evidence import Manifest

BEGAN_MS = 60_000
"""A manifest is written within a second of the run's name; on a busy machine within less than that."""
_NAME = re.compile(r"(\d{8}-\d{6})-(\d+)(-\d+)?")
"""UTC time, seed, and a number where another run took the name (`run_directory.new_run`)."""


def contradictions(manifest: Manifest, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe where a manifest says another seed or start than the run's name, and a start behind its first event.

    A name that is none of a run directory, and a start of 0, say nothing.
    """
    name, found = _NAME.fullmatch(manifest.run), list[str]()
    if name is not None and int(name[2]) != manifest.seed:
        found.append(f"the manifest says seed {manifest.seed}, and the run's name {manifest.run}")
    at = manifest.started_at
    if not at:
        return found
    if name is not None and abs(at - _ms(name[1])) > BEGAN_MS:
        found.append(f"the manifest says that the run started at {at}, and its name {manifest.run}")
    first = events[0]["t"]
    if at > first:
        found.append(f"the manifest says that the run started at {at}, {at - first} ms after its first event")
    return found


def _ms(text: str) -> int:
    """Read a name's time; one that no calendar has is that of nothing."""
    try:
        return round(1000 * datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp())
    except ValueError:
        return 0
