"""Where in the input: offsets, ranges of them, and the place of one record."""

from __future__ import annotations

Ranges = dict[str, dict[str, tuple[int, int]]]
"""Topic -> partition (as text, for JSON) -> [start, end) offsets."""

Offsets = dict[str, dict[str, int]]
"""Topic -> partition -> offset."""

Place = tuple[str, int, int]
"""Topic, partition and offset of a record of the input."""
