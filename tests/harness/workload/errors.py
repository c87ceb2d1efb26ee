"""The two ways a workload can fail."""

from __future__ import annotations

from infra.errors import UserError


class InputError(UserError, ValueError):
    """Something the user gave cannot be used; the message says what, where and what to do."""


class SendStalled(RuntimeError):  # noqa: N818 - named for what happened
    """The sender waited past its deadline; the message names the condition and the last progress seen."""
