"""What a measurement refuses."""

from __future__ import annotations


class BenchError(Exception):
    """A number would not be what its name says; the message tells why, and what to do."""
