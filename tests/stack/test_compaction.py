"""Compacting manifests on the real store: killed between any two of its steps, and beside a driver and a reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from effectively_once.__main__ import main
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.sinks import manifest_span
from effectively_once.sinks.reader import published
from effectively_once.store.object_store import S3ObjectStore
from infra.embedded.stack import EmbeddedStack
from tests.spark.held import Held, kill
from tests.stack.clicks import Clicks
from tests.stack.compact_in_fours import EPOCHS
from tests.stack.life_cycle import command_on, documented
from tests.stack.modules import start_module
from tests.unit.library.ledger_driver import LedgerDriver, global_counts
from tests.unit.library.names import GLOBAL_COUNTS

pytestmark = pytest.mark.stack

CHECKOUT = Path(__file__).parents[2]
LAYOUT, LAST, ENDED_S = Layout("clicks"), 9, 60.0
FIND = "effectively-once compact settings.json"
MANIFESTS = "clicks/global_counts/manifests"
SPAN = "000000000-000000003"


@pytest.fixture(autouse=True, scope="module")
def _four_epochs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_span, "EPOCHS", EPOCHS)
        yield


def read_counts(store: S3ObjectStore, pipeline: str) -> list[tuple[int, int, int]]:
    rows = published(store.address, pipeline, GLOBAL_COUNTS)
    return [(epoch, row["window_start_ms"], row["count"]) for epoch, table in rows for row in table.to_pylist()]


def manifests(store: S3ObjectStore, layout: Layout = LAYOUT) -> list[str]:
    folder = f"{layout.pipeline}/{GLOBAL_COUNTS}/manifests/"
    return [name.removeprefix(folder).removesuffix(".json") for name in store.names(folder)]


@pytest.mark.parametrize(
    ("point", "key", "left"),
    [
        ("put", SPAN, ["0", "1", "2", "3"]),
        ("put_done", SPAN, [SPAN, "0", "1", "2", "3"]),
        ("delete", "000000003", [SPAN, "0", "1", "2", "3"]),
        ("delete", "000000001", [SPAN, "0", "1"]),
    ],
    ids=["span about to be put", "span put", "first manifest about to go", "third manifest about to go"],
)
def test_killed_between_two_steps_of_a_compaction(
    store: S3ObjectStore, tmp_path: Path, point: str, key: str, left: list[str]
) -> None:
    LedgerDriver.started(store, LAYOUT).run(LAST + 1)
    assert 2 * EPOCHS > run(chain.read(LAYOUT), store).floor > EPOCHS, "one span"
    held = Held(tmp_path / "points")
    held.folder.mkdir()
    held.ask(point, key=f"{MANIFESTS}/{key}.json")
    words = store.address.endpoint, store.address.bucket, LAYOUT.pipeline
    first = start_module("compact_in_fours", *words, log=tmp_path / "first.log", held=held)
    process = held.wait(first)
    assert process.pid == first.pid
    kill(process)
    assert first.wait(ENDED_S)
    above = [f"{epoch:09d}" for epoch in range(EPOCHS, LAST + 1)]
    assert manifests(store) == [*(name if "-" in name else f"{int(name):09d}" for name in left), *above]
    assert read_counts(store, "clicks") == global_counts(LAST + 1)

    second = start_module("compact_in_fours", *words, log=tmp_path / "second.log", held=held)
    assert second.wait(ENDED_S)
    assert second.status() == 0, second.post_mortem()
    assert manifests(store) == [SPAN, *above]
    assert read_counts(store, "clicks") == global_counts(LAST + 1)


def test_beside_a_driver_every_reader_sees_every_epoch_and_the_command_tells_first(
    stack: EmbeddedStack, pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clicks = Clicks(stack, pipeline, tmp_path)
    clicks.start("first").run(LAST + 1)
    before = set(clicks.store.names(""))
    command = command_on(clicks.file, capsys)
    assert command(documented(FIND)) == (
        0,
        [
            f"chain: epoch {LAST} is the last recorded, floor {clicks.head().floor}",
            "global_counts: 1 spans to write, 4 manifests to delete",
            "nothing was changed; --yes does it",
        ],
    )
    assert set(clicks.store.names("")) == before
    driver = clicks.start("second")
    with clicks.running(driver):
        for _ in range(3):
            clicks.wait_for_epochs(driver)
            code, told = command(documented(f"{FIND} --yes"))
            assert code == 0, told
            rows = published(clicks.settings.bucket, pipeline, GLOBAL_COUNTS)
            assert [epoch for epoch, _ in rows] == sorted({epoch for epoch, _, _ in global_counts(rows.last + 1)})
    assert main(["inspect", str(clicks.file), "--deep"]) == 0, capsys.readouterr().out
    clicks.assert_published_once(driver.held.head.last_recorded + 1)
    assert command(f"{FIND} --yes")[0] == 0
    assert sum("-" in name for name in manifests(clicks.store, clicks.layout)) > 1
    clicks.start("third").run(3)
    clicks.assert_published_once(driver.held.head.last_recorded + 4)
    assert main(["inspect", str(clicks.file), "--deep"]) == 0, capsys.readouterr().out
