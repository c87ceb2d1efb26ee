"""What strikes need that not every machine has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from infra.toolchain.command import ToolchainError
from tests.harness.schedule import Strike


def find_needed(kind: str, strikes: Sequence[Strike], find: Callable[[], Path]) -> tuple[Path | None, str | None]:
    """What strikes of a kind need, where there are such, or else why it cannot be had."""
    if not any(one.kind == kind for one in strikes):
        return None, None
    try:
        return find(), None
    except ToolchainError as error:
        return None, str(error)
