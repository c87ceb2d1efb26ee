"""Take a chain over and extend it to a number of epochs, to be killed on the way."""

from __future__ import annotations

import sys

from effectively_once.ledger import chain
from effectively_once.ledger.objects import run
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from tests.unit.ledger.samples import LAYOUT, SETTINGS, declaration, record_of


def main(endpoint: str, bucket: str, owner: str, until: str) -> None:
    """Record the epoch that is declared, as recovery does, then declare and record on."""
    store = S3ObjectStore(BucketAddress(endpoint, bucket))
    held = run(chain.take_over(LAYOUT, owner, SETTINGS), store)
    if held.head.declared is not None:
        held = run(chain.record(LAYOUT, held, record_of(declaration(held.head.declared.epoch), 1)), store)
    published = None
    for epoch in range(held.head.last_recorded + 1, int(until)):
        held = run(chain.declare(LAYOUT, held, declaration(epoch), published, 0), store)
        published = record_of(declaration(epoch), 1)
    if published is not None:
        run(chain.record(LAYOUT, held, published), store)


if __name__ == "__main__":
    main(*sys.argv[1:])
