"""Tidying up the real store: leftovers of drivers that were killed, while another one works."""

from __future__ import annotations

import pytest

from effectively_once.__main__ import main
from effectively_once.errors import AccessError, ChainError, UnreachableError
from effectively_once.ledger.objects import Delete, Put
from effectively_once.operate.retention.leftovers import View
from effectively_once.store import listing
from effectively_once.store.listing import S3ListingStore
from effectively_once.store.object_store import BucketAddress
from infra.embedded.ports import free_ports
from tests.stack.clicks import Clicks
from tests.stack.life_cycle import TextCommand, documented, text_of_command
from tests.unit.library.names import GLOBAL_COUNTS

pytestmark = pytest.mark.stack

FIND = "effectively-once retention settings.json"


@pytest.fixture
def clicks(clicks: Clicks) -> Clicks:
    """Run it for eight epochs, and stop it in order."""
    clicks.start("first").run(8)
    return clicks


@pytest.fixture
def command(clicks: Clicks, capsys: pytest.CaptureFixture[str]) -> TextCommand:
    return text_of_command(clicks.file, capsys)


def names(clicks: Clicks) -> set[str]:
    return set(clicks.store.names(""))


def put(clicks: Clicks, *keys: str) -> set[str]:
    for key in keys:
        clicks.store.answer(Put(key, b"left over", None))
    return set(keys)


def left_over(clicks: Clicks) -> set[str]:
    """Put there what drivers leave that are killed, or replaced; return the names of all of it."""
    layout = clicks.layout
    return put(
        clicks,
        layout.delta("ids", 0, 0),
        layout.span("counts", 0, 1, 1),
        layout.staged_file(GLOBAL_COUNTS, 7, "00ff"),
        layout.step_record("rate", 7, 0),
        layout.step_record("rate", 7, 1),
        f"{layout.checkpoint('000000-cdef')}/offsets/0",
    )


def test_leftovers_are_counted_first_and_then_deleted_and_nothing_else(clicks: Clicks, command: TextCommand) -> None:
    kept = names(clicks)
    leftovers = left_over(clicks)
    code, told = command(documented(FIND) + " --older-than-s 0")
    assert code == 0
    assert told.splitlines() == [
        f"chain: epoch 7 is the last recorded, floor {clicks.head().floor}",
        "deltas               2 objects                18 bytes",
        "files                1 objects                 9 bytes",
        "recorded             2 objects                18 bytes",
        "shown                0 objects                 0 bytes",
        "letters              0 objects                 0 bytes",
        "checkpoints          1 objects                 9 bytes",
        "nothing was deleted; --delete does it",
    ]
    assert names(clicks) == kept | leftovers
    code, told = command(documented(FIND + " --keep recorded --delete"))
    assert (code, "left: 2 kept, 4 younger" in told) == (0, True), "an hour has to pass"
    assert names(clicks) == kept | leftovers
    code, told = command(FIND + " --older-than-s 0 --delete")
    assert (code, told.splitlines()[-1]) == (0, "6 of 6 objects are deleted")
    assert names(clicks) == kept
    assert command(FIND + " --delete")[1].splitlines()[-1] == "nothing to delete"


def test_a_driver_at_work_loses_nothing_and_the_chain_stays_whole(
    clicks: Clicks, command: TextCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = clicks.start("killed").steps()
    for step in killed:
        if step == "accepted 1":
            break
    driver = clicks.start("second")
    with clicks.running(driver):
        for _ in range(3):
            clicks.wait_for_epochs(driver)
            leftovers = left_over(clicks)
            code, told = command(FIND + " --older-than-s 0 --delete")
            assert code == 0, told
            assert not leftovers & names(clicks)
    assert main(["inspect", str(clicks.file), "--deep"]) == 0, capsys.readouterr().out
    clicks.assert_published_once(driver.held.head.last_recorded + 1)
    clicks.start("third").run(3)
    assert View.of(clicks.layout, clicks.store).named <= names(clicks)


def test_without_a_chain_nothing_is_deleted(clicks: Clicks, command: TextCommand) -> None:
    leftovers = left_over(clicks)
    clicks.store.answer(Delete(clicks.layout.head))
    code, told = command(FIND + " --older-than-s 0 --delete")
    assert (code, "ChainError: head is gone" in told) == (ChainError.exit_code, True)
    assert leftovers <= names(clicks)


def test_a_listing_of_several_pages_tells_every_object_once_with_its_size(
    bucket: BucketAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 20)
    store = S3ListingStore(bucket)
    keys = [f"a/{number:05d}" for number in range(45)]
    for number, key in enumerate(keys):
        store.answer(Put(key, b"x" * (number % 7), None))
    store.answer(Put("b/0", b"", None))
    found = list(store.list_objects("a/"))
    assert [one.name for one in found] == keys
    assert [one.bytes for one in found] == [number % 7 for number in range(45)]
    assert found[0].modified_ms > 1_700_000_000_000
    assert list(store.list_objects("none/")) == []
    assert [one.name for one in store.list_objects("b/")] == ["b/0"]


def test_a_listing_that_is_refused_or_not_answered_is_named(bucket: BucketAddress) -> None:
    with pytest.raises(AccessError, match="the bucket does not exist"):
        list(S3ListingStore(BucketAddress(bucket.endpoint, "no-such-bucket")).list_objects("a/"))
    (port,) = free_ports(1)
    with pytest.raises(UnreachableError, match="the object store does not answer"):
        list(S3ListingStore(BucketAddress(f"http://127.0.0.1:{port}", bucket.bucket), 0.5).list_objects("a/"))
