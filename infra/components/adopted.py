"""Passwords that are taken over: which Secrets they are in, and whether a destroy left them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from infra.components import credentials
from infra.components.derived import KEY
from infra.components.volumes import Find
from infra.settings import Settings

PUT_BACK: Final = "put it back, or leave adopt_credentials out where no volumes were kept"
"""What a password opens is in volumes, so another one would open nothing."""


def list_adopted(settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the Secrets that are read instead of made, with their keys."""
    if not settings.adopt_credentials:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    if settings.object_store.external is None:
        found[credentials.OBJECT_STORE_ROOT] = ("rootUser", "rootPassword")
    if credentials.derives(settings):
        found[credentials.ROOT] = (KEY,)
    if settings.result_store.enabled and settings.result_store.external is None:
        found[credentials.RESULT_STORE] = ("username", "password")
    return found


def wrong_secrets(settings: Settings, find: Find) -> Iterator[str]:
    """Yield a line per Secret that is not there, or lacks a key; never a value."""
    for name, keys in list_adopted(settings).items():
        secret = f"{settings.namespace}/{name}"
        there = find(f"/api/v1/namespaces/{settings.namespace}/secrets/{name}")
        if there is None:
            yield f"adopt_credentials: there is no Secret {secret} to take over; {_remedy(settings, name)}"
        elif lacking := [key for key in keys if key not in (there.get("data") or {})]:
            has = ", ".join(sorted(there.get("data") or {})) or "none"
            yield f"adopt_credentials: Secret {secret} lacks {', '.join(lacking)} (it has: {has}); add what is missing"


def _remedy(settings: Settings, name: str) -> str:
    if name != credentials.ROOT:
        return PUT_BACK
    # Users of broker and store are given their derived passwords at each update, so a new root locks nobody out.
    return (
        "settings below `security` derive others from it, and without them none is kept. Make it: kubectl -n "
        f'{settings.namespace} create secret generic {name} --from-literal={KEY}="$(openssl rand -base64 24)"'
    )
