"""How wrong settings are told."""

from __future__ import annotations

from collections.abc import Iterable


class SettingsError(ValueError):
    """Wrong settings. `lines` has one line per field: its name, what is wrong, the value and what is allowed."""

    def __init__(self, lines: Iterable[str]) -> None:
        """`lines` are complete sentences, each beginning with the field's name."""
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))
