"""Secrets that are derived and not drawn: one that is kept, and a number that is raised to have all others anew."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from infra.components.credentials import PASSWORD_BYTES
from infra.settings import Settings

KEY: Final = "root"
"""Of the Secret's data."""


def version(settings: Settings) -> str:
    """Return what differs when certificates or passwords do; the names of their Secrets end with it."""
    return f"{settings.security.authority}-{settings.security.rotation}"


def derive(root: str, purpose: str, rotation: int) -> str:
    """Return the secret of a purpose: 32 characters of base64.

    Args:
        root: data of the Secret below `KEY`, in base64.
        purpose: `kafka/user_counts`, say; another one has another secret, which tells nothing of this one.
        rotation: likewise.

    """
    told = hmac.new(base64.b64decode(root), f"{purpose}\n{rotation}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(told[:PASSWORD_BYTES]).decode()
