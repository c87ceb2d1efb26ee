"""Two drivers alive on one pipeline: whatever the older one is about to do, it does it too late, or identically.

The older driver, or one of its tasks, is held at a point; a newer one takes over and publishes everything; then the
older one wakes. It must stop with its named error, and every output must be exactly what it has to be.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.attacked import IN_DRIVER, IN_TASKS, Attacked

pytestmark = [pytest.mark.spark, pytest.mark.core]

QUICK = ("accepted_open",)


def _cases() -> list[Any]:
    names = [*IN_DRIVER, *IN_TASKS]
    return [pytest.param(name, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", _cases())
def test_a_driver_that_was_replaced_while_held_changes_nothing(attacked: Attacked, name: str) -> None:
    point, where = {**IN_TASKS, **IN_DRIVER}[name]
    stale = attacked.replaced_while_held(point, where)
    assert "StaleDriverError: driver " in stale.log.read_text().rstrip("\n").rsplit("\n", 1)[-1]
    attacked.exact()
