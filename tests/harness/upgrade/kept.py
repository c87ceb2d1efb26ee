"""The settings of the stack as they were before a run, kept until they are put back: also by the next run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from infra.errors import UserError

PENDING = "pending"


class KeptError(UserError):
    """Settings of before a run cannot be put back without losing others; the message says what to do."""


@dataclass(frozen=True)
class Kept:
    """A copy of a stack's file of settings beside the state, and what the run has made of the file.

    Attributes:
        file: of the settings.
        copy: of it, while a run changes the stack.
    """

    file: Path
    copy: Path

    @property
    def _mark(self) -> Path:
        return self.copy.with_suffix(".json")

    @property
    def is_there(self) -> bool:
        """Whether a run began that has not put the settings back."""
        return self.copy.exists() and self._mark.exists()

    def keep(self) -> None:
        """Copy the settings; nothing is changed before."""
        body = self.file.read_bytes()
        self.copy.write_bytes(body)
        self.copy.chmod(0o600)
        self._note(_digest(body))

    def begin(self) -> None:
        """Note that the file is about to be changed: who is killed now cannot say of what it ends up with."""
        self._note(PENDING)

    def finish(self) -> None:
        """Note what the file is now."""
        self._note(_digest(self.file.read_bytes()))

    def put_back(self) -> None:
        """Have the file as it was.

        Raises:
            KeptError: somebody else has changed it since; it is left as it is.
        """
        noted = json.loads(self._mark.read_text())["digest"]
        if noted not in (PENDING, _digest(self.file.read_bytes()) if self.file.exists() else None):
            raise KeptError(
                f"{self.file} was changed since a run of SUITE=upgrade broke off; before it, it was {self.copy}: bring "
                "both together by hand, delete the copy, and run `make up`"
            )
        self.file.write_bytes(self.copy.read_bytes())

    def forget(self) -> None:
        """Drop the copy: the stack is as it was."""
        self.copy.unlink(missing_ok=True)
        self._mark.unlink(missing_ok=True)

    def _note(self, digest: str) -> None:
        beside = self._mark.with_suffix(".tmp")
        beside.write_text(json.dumps({"digest": digest}))
        beside.replace(self._mark)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
