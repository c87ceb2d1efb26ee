"""A backup of Spark's checkpoint: up to where head is, and of what Spark deletes meanwhile nothing (R9)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from effectively_once.ledger import checksum
from effectively_once.operate.backup.backup_manifest import manifest_of
from tests.unit.library.backups import LAYOUT, restored, stored, taken
from tests.unit.library.ledger_driver import LedgerDriver

CHECKPOINT = {
    "metadata": b"{}",
    "offsets/10": b"10",
    "offsets/11": b"11",
    "offsets/12": b"12",
    "offsets/13": b"13",
    "commits/10": b"10",
    "commits/11": b"11",
    "commits/12": b"12",
    "state/0/0/1.zip": b"zip",
}


@pytest.mark.parametrize(
    ("declared", "left_out"),
    [(False, {"offsets/12", "offsets/13", "commits/12"}), (True, {"offsets/13", "commits/12"})],
)
def test_a_checkpoint_is_copied_up_to_where_head_is(declared: bool, left_out: set[str]) -> None:
    """So it fits the chain, whatever batches Spark has planned since."""
    source = stored(12)
    if declared:
        next(LedgerDriver.started(source, LAYOUT, "second").steps())
    folder = LAYOUT.checkpoint("000001-abcd")
    source.objects |= {f"{folder}/{name}": body for name, body in CHECKPOINT.items()}
    source.objects[f"{LAYOUT.checkpoint('000001-other')}/metadata"] = b"another lineage's"
    again = restored(taken(source, checkpoint=True))
    copied = {name.removeprefix(f"{folder}/"): again.objects[name] for name in again.names(LAYOUT.checkpoint(""))}
    assert copied == {name: body for name, body in CHECKPOINT.items() if name not in left_out}
    assert not list(restored(taken(source)).names(LAYOUT.checkpoint("")))


def test_of_a_lineage_that_has_recorded_nothing_no_commit_is_copied() -> None:
    """Its batch 0 is declared, the chain's last recorded batch is of the lineage before."""
    source = stored(12)
    next(LedgerDriver.started(source, LAYOUT, "second").steps())
    head, _ = checksum.open_sealed(source.objects[LAYOUT.head])
    head["declared"] |= {"lineage": "000002-new", "batch_id": 0}
    source.objects[LAYOUT.head] = checksum.seal(head)
    folder = LAYOUT.checkpoint("000002-new")
    source.objects |= {f"{folder}/{name}": b"0" for name in ("offsets/0", "offsets/1", "commits/0", "commits/1")}
    again = restored(taken(source, checkpoint=True))
    assert list(again.names(LAYOUT.checkpoint(""))) == [f"{folder}/offsets/0"]


def test_what_spark_deletes_from_its_checkpoint_meanwhile_is_left_out() -> None:
    source = stored(12)
    folder = LAYOUT.checkpoint("000001-abcd")
    source.objects |= {f"{folder}/{name}": body for name, body in CHECKPOINT.items()}

    def names(prefix: str) -> Iterator[str]:
        found = sorted(name for name in source.objects if name.startswith(prefix))
        source.objects.pop(f"{folder}/offsets/10", None)
        return iter(found)

    source.names = names  # type: ignore[method-assign]
    assert "checkpoints/000001-abcd/offsets/10" not in manifest_of(taken(source, checkpoint=True)).objects
