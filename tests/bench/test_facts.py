"""A measurement that was interrupted goes on where it ended, and only with the settings it began with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import facts
from tests.bench.errors import BenchError
from tests.bench.facts import RAW, Kept, spread


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(facts, "CHECKOUT", tmp_path)
    begun = Kept.begin("dedup", rounds=2, arms=("a", "b"))
    begun.sample(arm="a", round=0, rows_per_s=10)
    return begun


def test_samples_that_were_taken_are_found_again(kept: Kept) -> None:
    resumed = Kept.begin("dedup", kept.folder, rounds=2, arms=("a", "b"))

    found = resumed.find_sample(arm="a", round=0)
    assert found is not None
    assert found["rows_per_s"] == 10
    assert resumed.find_sample(arm="a", round=1) is None


def test_a_folder_may_be_named_from_where_one_is(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept.folder.parent)

    resumed = Kept.begin("dedup", Path(kept.folder.name), rounds=2, arms=("a", "b"))
    told = resumed.finish("the table", "dedup", "rows/s", {"a": [10.0]})

    assert told.startswith("the table\n")
    assert told.endswith(f"in {kept.folder.relative_to(kept.folder.parents[2])}")
    assert (kept.folder / "table.md").read_text() == "the table\n"
    assert (kept.folder / "figure.svg").read_text().startswith("<svg")


def test_each_sample_tells_the_load_after_it(kept: Kept) -> None:
    found = kept.find_sample(arm="a")

    assert found is not None
    assert found["load_after"] >= 0


@pytest.mark.parametrize(("case", "rounds"), [("dedup", 3), ("streams", 2)])
def test_samples_of_another_case_or_other_settings_are_not_mixed(kept: Kept, case: str, rounds: int) -> None:
    with pytest.raises(BenchError, match="do not belong into one table"):
        Kept.begin(case, kept.folder, rounds=rounds, arms=("a", "b"))


def test_a_folder_that_is_no_measurement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"facts\.json is not there"):
        Kept.begin("dedup", tmp_path)


def test_a_sample_that_was_cut_off_is_taken_again(kept: Kept) -> None:
    with (kept.folder / RAW).open("a") as file:
        file.write('{"arm": "b", "round": 0, "rows_')

    resumed = Kept.begin("dedup", kept.folder, rounds=2, arms=("a", "b"))
    assert resumed.find_sample(arm="b") is None
    resumed.sample(arm="b", round=0, rows_per_s=20)

    assert [resumed.find_sample(arm=arm) is not None for arm in "ab"] == [True, True]


def test_spread_shows_the_median_and_the_ends() -> None:
    assert spread([3_000, 1_000, 2_000]) == "2,000 (1,000 to 3,000)"
    assert spread([1.26, 1.24], 2) == "1.25 (1.24 to 1.26)"
