"""A file that says which users there are, and a folder with a file of a password for each of them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from effectively_once.errors import SettingsError


class _Grants(Protocol):
    @property
    def users(self) -> Collection[str]: ...

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Any: ...


G = TypeVar("G", bound=_Grants)


def read_grants(kind: type[G], path: Path, folder: Path) -> tuple[G, dict[str, str]]:
    """Read the file, and the password of each user that it names.

    Raises:
        SettingsError: naming the file; never a password.

    """
    try:
        grants: G = kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise SettingsError(f"grants cannot be read: {error}", str(path), "Correct it.") from None
    passwords = {}
    for user in grants.users:
        try:
            passwords[user] = (folder / user).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise SettingsError(
                f"the password of user {user} cannot be read: {error.strerror}", str(folder / user), "Mount it."
            ) from None
        if not passwords[user]:
            raise SettingsError(f"the password of user {user} is empty", str(folder / user), "Write one.")
    return grants, passwords
