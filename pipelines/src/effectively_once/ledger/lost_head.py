"""A chain is begun only where nothing of one lies: a store that does not find head may have lost sight of it.

MinIO says `NoSuchKey` of an object that it holds, and lets `If-None-Match: *` pass, while one drive of three is behind
and another one is away (docs/explanation/found-by-campaigns.md).
"""

from __future__ import annotations

from effectively_once.errors import StoreError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ListedStore


def refuse_lost_head(layout: Layout, store: ListedStore) -> None:
    """Refuse to begin a chain beside what one left. Raises StoreError, before anything is changed."""
    for folder in layout.left_by_a_chain:
        for name in store.names(folder):
            raise StoreError(
                f"the object store does not find the chain's head, and holds {name}, which a chain left",
                layout.head,
                "If drives or servers of the store are away, bring them back: the driver that starts then goes on, and "
                "nothing was changed. If head is lost for good, restore a backup; if the chain was deleted on purpose, "
                f"delete the rest of {layout.pipeline}/ too.",
            )
