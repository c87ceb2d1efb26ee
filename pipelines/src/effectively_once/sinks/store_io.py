"""PyIceberg's files on the pipeline's own object store: its credentials, certificates, patience and errors.

What PyIceberg would use instead knows neither the certificates nor the identity of a pod that `s3_client` knows.
Metadata is small, so an object is read and written as a whole. Every name is new, so a put creates, and a lost answer
is settled by reading.
"""

from __future__ import annotations

import io
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from effectively_once.errors import SinkError
from effectively_once.ledger.objects import Delete, ObjectStore, body_of, create_once, run

STORE, ROOT = "effectively-once.store", "effectively-once.root"
"""Properties of a catalog: the store itself, and what its locations begin with (`s3://bucket/`)."""


class StoreIO(FileIO):
    """Reads and writes what a catalog names. Made by PyIceberg, from the catalog's properties."""

    def new_input(self, location: str) -> _Input:
        """See FileIO."""
        return _Input(location, self._store, self._key(location))

    def new_output(self, location: str) -> _Output:
        """See FileIO."""
        return _Output(location, self._store, self._key(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """See FileIO. Raises what the store raises."""
        name = location if isinstance(location, str) else location.location
        self._store.answer(Delete(self._key(name)))

    @property
    def _store(self) -> ObjectStore:
        store: ObjectStore = self.properties[STORE]
        return store

    def _key(self, location: str) -> str:
        root: str = self.properties[ROOT]
        if not location.startswith(root):
            raise SinkError(
                f"a file of the lake table lies outside {root}", location, "Move the table back into the bucket."
            )
        return location.removeprefix(root)


class _Input(InputFile):
    """One object that is read as a whole."""

    def __init__(self, location: str, store: ObjectStore, key: str) -> None:
        super().__init__(location)
        self._store, self._key = store, key

    def __len__(self) -> int:
        return len(self._read())

    def exists(self) -> bool:
        """See InputFile."""
        return run(body_of(self._key), self._store) is not None

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 - a body in memory always is
        """See InputFile. Raises SinkError when it is missing."""
        return io.BytesIO(self._read())

    def _read(self) -> bytes:
        body = run(body_of(self._key), self._store)
        if body is None:
            raise SinkError(
                "a file that the lake table names is missing", self.location, "Restore it from the bucket's versions."
            )
        return body


class _Output(OutputFile):
    """One object that is put when its stream is closed."""

    def __init__(self, location: str, store: ObjectStore, key: str) -> None:
        super().__init__(location)
        self._store, self._key = store, key

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        """See OutputFile."""
        return self.to_input_file().exists()

    def to_input_file(self) -> _Input:
        """See OutputFile."""
        return _Input(self.location, self._store, self._key)

    def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002 - no name is ever written twice
        """See OutputFile."""
        return _Stream(self)

    def put(self, body: bytes) -> None:
        """Create the object. Raises SinkError when there is another of this name."""
        if run(create_once(self._key, body), self._store) != body:
            raise SinkError("a file of the lake table is there already", self.location, "Start the pipeline again.")


class _Stream(io.BytesIO):
    """Puts what was written when it is closed, and nothing when writing failed."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output, self._failed = output, False

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._failed = kind is not None
        self.close()

    def close(self) -> None:
        if not self.closed:
            body = self.getvalue()
            super().close()
            if not self._failed:
                self._output.put(body)
