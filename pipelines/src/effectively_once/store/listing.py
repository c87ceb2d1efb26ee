"""A bucket that lists what is in it, with sizes and ages: for tidying up, never for state (R5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from effectively_once.ledger.objects import ObjectStore
from effectively_once.store.object_store import S3ObjectStore

PAGE = 1000
"""Names that a store tells in one answer."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing tells it; `modified_ms` is milliseconds since 1970, by the store's clock."""

    name: str
    bytes: int
    modified_ms: int


class ListingStore(ObjectStore, Protocol):
    """An object store that lists."""

    def list_objects(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects below a prefix, in order of their names."""
        ...


class S3ListingStore(S3ObjectStore):
    """One bucket. A listing is asked for page by page, so that one of any length fits into memory."""

    def list_objects(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects below a prefix, in order of their names.

        Raises:
            UnreachableError: the store does not answer.
            AccessError: it refuses.

        """
        after: str | None = None
        while True:
            page: list[Listed] = self._patiently(self._page, prefix, after)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].name

    def _page(self, prefix: str, after: str | None) -> list[Listed]:
        with self._name_failures(prefix):
            found = self._signer.list_objects(self.address.bucket, prefix, recursive=True, start_after=after)
            return [
                Listed(str(item.object_name), item.size or 0, round(item.last_modified.timestamp() * 1000))
                for item in islice(found, PAGE)
            ]
