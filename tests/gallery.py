"""The examples below `pipelines/gallery`, and their page."""

from __future__ import annotations

from infra.toolchain.prepare import CHECKOUT

GALLERY = CHECKOUT / "pipelines" / "gallery"
PAGE = CHECKOUT / "docs" / "how-to" / "gallery.md"


def names() -> list[str]:
    """Return the names of the examples: whatever has settings is one."""
    return sorted(path.parent.name for path in GALLERY.glob("*/settings.json"))
