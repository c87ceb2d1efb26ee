"""Checkpoints of an operator's state (S11): saved with each batch, restored on a restart, old ones deleted.

The author of an operator writes two functions, `get_state` and `initialise`; the rest is here. A snapshot is named
after the batch that it holds the effects of. Spark keeps where that batch ends in the topic, so state and source go
back to one place together, whatever was done outside of them in between.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from effectively_once.errors import CheckpointError
from effectively_once.ledger.objects import Delete, body_of, create_once, run
from effectively_once.store.object_store import S3ObjectStore

KEPT = 3
"""Snapshots that are kept; a restart needs the last one, or the one before it."""


class Operator(Protocol):
    """An operator with state."""

    def get_state(self) -> dict[str, Any]:
        """Return all of the state, as JSON values."""
        ...

    def initialise(self, state: dict[str, Any]) -> None:
        """Begin with a state that `get_state` has returned."""
        ...


@dataclass
class Totals:
    """Both counts since the beginning of the topic."""

    transactions: int = 0
    frauds: int = 0

    def add(self, transactions: int, frauds: int) -> None:
        """Count more of them."""
        self.transactions += transactions
        self.frauds += frauds

    def get_state(self) -> dict[str, Any]:
        """See Operator."""
        return {"transactions": self.transactions, "frauds": self.frauds}

    def initialise(self, state: dict[str, Any]) -> None:
        """See Operator."""
        self.transactions, self.frauds = state["transactions"], state["frauds"]


class Snapshots:
    """The snapshots of one pipeline's operator, below `<pipeline>/snapshots/`."""

    def __init__(self, store: S3ObjectStore, pipeline: str) -> None:
        self._store, self._folder = store, f"{pipeline}/snapshots"

    def restore(self, operator: Operator, done: int = -1) -> int:
        """Give an operator the newest state.

        Args:
            operator: begins with it.
            done: the last batch that Spark has done. Its state was saved before, so one without it is not the newest.

        Returns:
            The batch that the state holds the effects of; -1 where there is no snapshot, and nothing was restored.

        Raises:
            CheckpointError: the newest snapshot is not readable, or is gone.

        """
        numbers = (name.rpartition("/")[2] for name in self._store.names(f"{self._folder}/"))
        batch = max((int(number) for number in numbers if number.isdigit()), default=-1)
        if batch < done:
            raise CheckpointError(
                f"batch {done} is done, and the newest state of the operator is of batch {batch}",
                self._folder,
                "Put the snapshots back from the bucket's versions; counting anew would leave out what they hold.",
            )
        if batch < 0:
            return -1
        try:
            operator.initialise(json.loads(run(body_of(self._name(batch)), self._store) or b""))
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"a snapshot of the operator's state cannot be read: {error}",
                self._name(batch),
                "Put the object back from the bucket's versions.",
            ) from error
        return batch

    def save(self, batch: int, operator: Operator) -> None:
        """Keep the state after a batch, and delete the one that nobody needs any more."""
        run(create_once(self._name(batch), json.dumps(operator.get_state()).encode()), self._store)
        if batch >= KEPT:
            self._store.answer(Delete(self._name(batch - KEPT)))

    def _name(self, batch: int) -> str:
        return f"{self._folder}/{batch:09}"
