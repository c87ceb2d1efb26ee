"""Epochs have as many shards as was set, and their rows lie in so many partitions; else the judge fails."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_both
from tests.unit.harness.tamper import bind, change_json, change_lines, watch

MORE, FEWER = 3, 7
"""Epochs from which on there is one shard more, and one less."""


@pytest.fixture(scope="module")
def resharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run whose pipeline had three shards for some epochs; not to be changed."""
    run = tmp_path_factory.mktemp("resharded") / "20261128-231500-7"
    return bind(watch(fabricate(run, resharded={MORE: 3, FEWER: 2})))


@pytest.fixture
def run(resharded: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to be tampered with."""
    return Path(shutil.copytree(resharded, tmp_path / resharded.name))


def _is_change(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "change")


def test_a_run_whose_number_was_changed_passes(resharded: Path) -> None:
    results = expect_both(resharded, PASS)
    assert results.claim.endswith("Changed while it ran, with effect: shards 2.")


@pytest.mark.parametrize(
    ("epoch", "shards", "says"),
    [
        (1, 3, "epochs have 2, then 3, then 2, then 3, then 2 shards, set were 2, then 3, then 2"),
        (MORE, 4, "epochs have 2, then 4, then 3, then 2 shards"),
    ],
)
def test_a_number_that_nobody_set_is_refuted(run: Path, epoch: int, shards: int, says: str) -> None:
    change_json(run / "observed" / "chain.json", lambda it: it["epochs"][epoch].update(shards=shards))
    expect(run, FAIL, "chain", says)


def test_a_number_that_was_set_with_effect_and_no_epoch_has_is_refuted(run: Path) -> None:
    change_json(run / "observed" / "chain.json", lambda it: [one.update(shards=2) for one in it["epochs"]])
    expect(run, FAIL, "chain", "epochs have 2 shards, set were 2, then 3, then 2")


def test_a_change_whose_effect_was_not_seen_may_have_had_it(run: Path) -> None:
    def blind(rows: list[dict[str, Any]]) -> None:
        for row in filter(_is_change, rows):
            row.update(seen=None, lacks="the run ended before")

    change_lines(run / "history.jsonl", blind)
    expect(run, PASS, "chain")
    expect(run, UNKNOWN, "changes", "the run ended before")


def test_rows_of_an_epoch_lie_in_as_many_partitions_as_it_has_shards(run: Path) -> None:
    """Whoever goes on with three shards while chain and change say four is found by the partition of a row."""

    def say_four(numbered: list[dict[str, Any]]) -> None:
        for one in numbered:
            one.update(shards=4 if one.get("shards") == 3 else one.get("shards"))

    change_json(run / "observed" / "chain.json", lambda it: say_four(it["epochs"]))
    change_lines(run / "history.jsonl", lambda rows: say_four([*filter(_is_change, rows)]))
    expect(run, PASS, "chain")
    expect(run, FAIL, "messages", "in partition")


def test_a_partition_that_a_change_added_has_to_be_looked_at(run: Path) -> None:
    def forget(quiet: dict[str, Any]) -> None:
        quiet["partitions"] = [one for one in quiet["partitions"] if one["partition"] < 2]

    change_json(run / "observed" / "quiet.json", forget)
    expect(run, UNKNOWN, "quiet", "was not looked at")


def test_a_change_to_no_number_of_shards_cannot_be_judged(run: Path) -> None:
    change_lines(run / "history.jsonl", lambda rows: next(filter(_is_change, rows)).update(shards=0))
    expect(run, UNKNOWN, "chain", "a change sets 0 shards")
