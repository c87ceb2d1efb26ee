"""Where a backup is kept: a folder of this machine, or a prefix of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from effectively_once.errors import SettingsError
from effectively_once.ledger.objects import Answer, ListedStore, Request
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.folder_store import FolderStore
from effectively_once.store.object_store import BucketAddress, S3ObjectStore

SCHEME = "s3://"


@dataclass(frozen=True, slots=True)
class Place:
    """An object store of which only the names below a prefix are used.

    Attributes:
        store: it.
        name: the place, for messages.
        prefix: empty, or ends with a slash.

    """

    store: ListedStore
    name: str
    prefix: str = ""

    def answer(self, request: Request) -> Answer:
        """Carry out a request for an object below the prefix."""
        return self.store.answer(replace(request, key=self.prefix + request.key))

    def names(self) -> Iterator[str]:
        """Yield the names of all its objects."""
        for key in self.store.names(self.prefix):
            yield key.removeprefix(self.prefix)

    def below(self, folder: str) -> Place:
        """Return a folder of it as a place of its own."""
        return Place(self.store, f"{self.name.rstrip('/')}/{folder}", f"{self.prefix}{folder}/")

    def __str__(self) -> str:
        """As messages name it."""
        return self.name


def place_of(name: str, settings: PipelineSettings, endpoint: str | None = None) -> Place:
    """Open `s3://bucket/prefix`, at the pipeline's endpoint unless another is given, or else a folder.

    Raises:
        SettingsError: it has no prefix, or lies among the objects of the pipeline itself.

    """
    if not name.startswith(SCHEME):
        return Place(FolderStore(Path(name)), name)
    bucket, _, prefix = name.removeprefix(SCHEME).strip("/").partition("/")
    if not bucket or not prefix:
        raise SettingsError("the place has no bucket or no prefix", name, "Write s3://bucket/prefix, or a folder.")
    address = BucketAddress(endpoint or settings.s3_endpoint, bucket)
    if address == settings.bucket and prefix.split("/")[0] == settings.pipeline:
        raise SettingsError(
            "the place lies among the objects of the pipeline, and would go with them",
            name,
            "Name another prefix or another bucket.",
        )
    return Place(S3ObjectStore(address), name, f"{prefix}/")
