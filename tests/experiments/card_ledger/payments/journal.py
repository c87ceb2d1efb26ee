"""The journal of the payment service: a JSON line a call, on disk before the call is answered."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tests.experiments.card_ledger.payments.book import Entry
from tests.harness.evidence import EvidenceError

_TODO = "take the journal again from where the run was recorded, or run again"


class Journal:
    """Appends entries, each synced; an entry that a kill tore was never answered, and is cut off at the next start.

    Args:
        path: the file, made when it is not there.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        whole = path.read_bytes()
        os.ftruncate(self._descriptor, whole.rfind(b"\n") + 1)
        self.kept = list(entries(path))
        """What was there before."""

    def append(self, entry: Entry) -> None:
        """Write an entry; it is on disk on return. Raises OSError."""
        line = entry.model_dump_json().encode() + b"\n"
        written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(f"the journal was cut after {written} of {len(line)} bytes; free disk space")
        os.fdatasync(self._descriptor)

    def content(self) -> bytes:
        """What has been written so far. Raises OSError."""
        return self._path.read_bytes()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def entries(path: Path) -> Iterator[Entry]:
    """Every entry of a journal, in order.

    Raises:
        EvidenceError: it is missing, torn, a line is no entry, or one is missing.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"journal cannot be read ({error.strerror})", path, _TODO) from error
    if content and not content.endswith(b"\n"):
        raise EvidenceError("the last entry of the journal is torn", path, _TODO)
    for number, line in enumerate(content.splitlines()):
        where = f"{path}:{number + 1}"
        try:
            entry = Entry.model_validate_json(line)
        except ValidationError as error:
            raise EvidenceError(f"no entry: {error.errors()[0]['msg']}", where, _TODO) from error
        if entry.n != number:
            raise EvidenceError(f"entry {entry.n} stands where {number} is due", where, _TODO)
        yield entry
