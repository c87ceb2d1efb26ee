"""The kept result of a fuzz run: of a hundred thousand records on either part, at a commit, and on its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.fuzz.result import JSON, PARTS, TABLE, Result

EVIDENCE = CHECKOUT / "docs" / "evidence"
LISTED = "[`fuzz/`]"
"""How docs/evidence/kept.md begins its row."""
RECORDS_MIN = 100_000


def complaints(listing: str, folder: Path) -> Iterator[str]:
    """Describe what of a kept run is missing or too little; nothing where none is listed, and none is there."""
    if (LISTED in listing) != folder.exists():
        yield f"{folder} is {'there' if folder.exists() else 'missing'}, and kept.md says otherwise"
    if not folder.exists():
        return
    result = Result.read(folder / JSON)
    for part in PARTS:
        if result.records(part) < RECORDS_MIN:
            yield f"{result.records(part):,} records of the part {part}, {RECORDS_MIN:,} are needed"
        if sum(result.outcomes.get(part, {}).values()) <= result.records(part):
            yield f"of the part {part} no outcome is known"
    if not result.commit or result.dirty:
        yield "it is of no commit"
    if (folder / TABLE).read_text(encoding="utf-8") != result.markdown():
        yield f"{TABLE} is not the page of {JSON}"


def test_a_run_that_is_kept_is_whole() -> None:
    assert not [*complaints((EVIDENCE / "kept.md").read_text(encoding="utf-8"), EVIDENCE / "fuzz")]


COUNTS = {"read": RECORDS_MIN, "accepted": 60_000, "late": 40_000}
GOOD = Result(7, "0123456789abcdef", dirty=False, outcomes=dict.fromkeys(PARTS, COUNTS))


def test_what_is_too_little_or_of_no_commit_is_not_kept(tmp_path: Path) -> None:
    folder, listing = tmp_path / "fuzz", f"| {LISTED}(fuzz/table.md) | ..."
    assert not [*complaints("", folder)], "none is kept yet"
    assert "missing" in next(complaints(listing, folder))
    GOOD.write(folder)
    assert not [*complaints(listing, folder)]
    assert "there" in next(complaints("", folder))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: replace(it, outcomes={**it.outcomes, "stack": {**COUNTS, "read": 99_999}}), "99,999 records of"),
        (lambda it: replace(it, outcomes={"memory": COUNTS}), "0 records of the part stack"),
        (lambda it: replace(it, outcomes={**it.outcomes, "memory": {"read": RECORDS_MIN}}), "no outcome is known"),
        (lambda it: replace(it, commit=""), "it is of no commit"),
        (lambda it: replace(it, dirty=True), "it is of no commit"),
    ],
)
def test_a_complaint_names_what_is_wrong(change: Callable[[Result], Result], why: str, tmp_path: Path) -> None:
    change(GOOD).write(tmp_path / "fuzz")
    assert any(why in one for one in complaints(LISTED, tmp_path / "fuzz"))


def test_a_page_of_other_counts_is_none(tmp_path: Path) -> None:
    GOOD.write(tmp_path / "fuzz")
    page = tmp_path / "fuzz" / TABLE
    page.write_text(page.read_text().replace("60,000", "60,001"))
    assert [*complaints(LISTED, tmp_path / "fuzz")] == [f"{TABLE} is not the page of {JSON}"]
