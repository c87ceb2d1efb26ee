"""Rows as the chain counts and digests them."""

from __future__ import annotations

from effectively_once.ledger import digest
from effectively_once.ledger.record import Record


class Rows(Record):
    """How many rows a shard published or decided on, their order-independent digest, and how many bytes they took."""

    rows: int = 0
    digest: str = digest.EMPTY
    bytes: int = 0
