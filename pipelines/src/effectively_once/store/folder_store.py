"""A local folder as an object store, as far as backups need one: objects are created once, read, listed and deleted."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from effectively_once.errors import AccessError
from effectively_once.ledger.objects import Absent, Answer, Delete, Found, Get, Gone, Put, Refused, Request, Written


class FolderStore:
    """Objects are files below a folder. What is there is whole, and on the disk, also after a crash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, request: Request) -> Answer:
        """Carry out one request; a put has to be one that creates. Raises AccessError for what the folder refuses."""
        path = self._folder / request.key
        try:
            match request:
                case Get():
                    return self._get(path)
                case Delete():
                    path.unlink(missing_ok=True)
                    return Gone()
                case Put(_, body, None):
                    return self._create(path, body)
        except OSError as error:
            raise AccessError(
                f"the folder refuses: {error.strerror}", str(path), "Check its permissions and the space that is left."
            ) from error
        raise NotImplementedError("objects of a folder are not replaced")

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of all objects below a prefix, which is empty or ends with a slash."""
        for path in sorted((self._folder / prefix).rglob("*")):
            # What begins with a dot is still being written.
            if path.is_file() and not path.name.startswith("."):
                yield path.relative_to(self._folder).as_posix()

    def _get(self, path: Path) -> Answer:
        try:
            body = path.read_bytes()
        except FileNotFoundError:
            return Absent()
        return Found(body, _etag(body))

    def _create(self, path: Path, body: bytes) -> Answer:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{uuid.uuid4().hex}")
        try:
            with unfinished.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            # A link, not a rename: it fails when there is one of this name.
            path.hardlink_to(unfinished)
        except FileExistsError:
            return Refused()
        finally:
            unfinished.unlink(missing_ok=True)
        self._keep(path.parent)
        return Written(_etag(body))

    def _keep(self, folder: Path) -> None:
        """Have the names in a folder on the disk, too."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _etag(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
