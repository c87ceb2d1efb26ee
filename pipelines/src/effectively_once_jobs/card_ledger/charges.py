"""The recorded step that charges: one call a transaction, with an idempotency key or without."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from effectively_once_jobs.card_ledger.payments import Payments

ADDED = pa.schema([pa.field("outcome", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Charges:
    """Charge every accepted transaction of a shard.

    Its answers are recorded, and whoever repeats the epoch after that calls no more. But a crash between the calls and
    the record repeats the calls: without a key each is a charge once more.

    Attributes:
        keyed: whether each call carries the record's id as idempotency key.
    """

    keyed: bool

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Accepted rows -> what came of each: `charged`, or why the service refused it."""
        payments = Payments.here()
        columns = (rows[name].to_pylist() for name in ("id", "card", "amount_cents"))
        outcomes = [
            payments.charge(card, amount, id_, key=id_ if self.keyed else None)
            for id_, card, amount in zip(*columns, strict=True)
        ]
        return pa.table({"outcome": outcomes}, schema=ADDED)
