"""A driver begins no chain beside what one left, whatever the store says of head."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from effectively_once.driver.held_chain import HeldChain
from effectively_once.errors import StoreError
from effectively_once.ledger.objects import Absent, Answer, Get, Request
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT

CHAINLESS = (LAYOUT.control, LAYOUT.lease, LAYOUT.standby, LAYOUT.probe("a"))
LEFT = (LAYOUT.delta("ids", 3, 0), LAYOUT.segment(0, 31), f"{LAYOUT.checkpoint('000001-a')}/offsets/0")


class BlindStore(MemoryStore):
    """Does not find head, and lets a put pass that asks for there to be none: MinIO without the drives it needs."""

    blind = False

    def answer(self, request: Request) -> Answer:
        if self.blind and isinstance(request, Get) and request.key == LAYOUT.head:
            return Absent()
        if self.blind:
            self.objects.pop(LAYOUT.head, None)
        return super().answer(request)

    def names(self, prefix: str) -> Iterator[str]:
        return iter([name for name in self.objects if name.startswith(prefix)])


def take_over(store: BlindStore) -> HeldChain:
    one = HeldChain(LAYOUT, store)  # type: ignore[arg-type]
    one.take_over({}, lambda _: None, {})
    return one


@pytest.mark.parametrize("name", LEFT)
def test_a_head_that_is_not_found_is_not_made_anew_and_the_next_driver_goes_on(name: str) -> None:
    store = BlindStore()
    held = take_over(store).held
    store.objects[name] = b""
    before = dict(store.objects)
    store.blind = True
    with pytest.raises(StoreError, match="does not find the chain's head") as refused:
        take_over(store)
    assert name in str(refused.value)
    assert store.objects == before
    store.blind = False
    assert take_over(store).head.generation == held.head.generation + 1


def test_what_is_there_before_any_chain_holds_nobody_up() -> None:
    store = BlindStore()
    store.objects.update(dict.fromkeys(CHAINLESS, b"{}"))
    assert take_over(store).head.generation == 1
