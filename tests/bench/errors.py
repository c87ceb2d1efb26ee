"""What a measurement refuses."""

from __future__ import annotations

from infra.errors import UserError


class BenchError(UserError):
    """A number would not be what its name says; the message tells why, and what to do."""
