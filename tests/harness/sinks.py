"""Sinks that some runs have beside those that all have (tests.harness.evidence.SINKS)."""

from __future__ import annotations

ACCEPTED_ROWS = "accepted_rows"
"""A table of what `accepted` holds too, of runs that have a result store."""
