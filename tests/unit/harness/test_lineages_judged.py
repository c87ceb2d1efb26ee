"""Batches of a lineage go up by what Spark numbers; an epoch that repairs another publishes more of its batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.checkers.chain import lineages


def record(epoch: int, batch_id: int, repairs: int | None = None, lineage: str = "1-a", *, again: bool = False) -> Any:
    return SimpleNamespace(epoch=epoch, batch_id=batch_id, lineage=lineage, repairs=repairs, leaves_again=again)


@pytest.mark.parametrize(
    ("after", "right"),
    [
        (record(4, 3), True),
        (record(4, 2, repairs=3), True),
        (record(4, 3, repairs=3), True),
        (record(4, 2), False),
        (record(4, 2, again=True), True),
        (record(4, 1, again=True), False),
        (record(4, 1, repairs=3), False),
        (record(4, 2, repairs=2), False),
        (record(4, 0, lineage="2-b"), True),
    ],
)
def test_a_batch_comes_once_but_for_the_repair_of_its_epoch(after: Any, right: bool) -> None:
    found = lineages([record(2, 1), record(3, 2), after])
    assert found == ([] if right else [f"epoch 4: batch {after.batch_id} after batch 2 of its lineage"])
