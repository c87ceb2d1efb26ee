"""Kept results: of planted bugs and mutants nothing got through, and a fuzz run is large and of a commit."""

from __future__ import annotations

import re
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


SEEDS = 3
BUGS_MIN = 60
"""Bugs in whose plays something is drawn, so that one seed could be luck."""
MODULES = ("ledger", "catalog", "state", "sinks", "windows", "messages")


def read_rows(name: str) -> list[list[str]]:
    """Read the cells of each line of a kept Markdown file that is a row of its first table, without its head."""
    text = (EVIDENCE / name).read_text(encoding="utf-8").split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_planted_bug_was_caught_and_a_campaign_by_three_seeds() -> None:
    """The two that once passed a whole demo are among them."""
    rows = read_rows("planted/matrix.md")
    caught = f"{len(rows)} of {len(rows)} planted bugs were caught. The correct product passed every run of them."
    assert caught in (EVIDENCE / "planted" / "matrix.md").read_text(encoding="utf-8")
    seeds = {row[0]: int(row[4]) for row in rows}
    assert sum(played == SEEDS for played in seeds.values()) >= BUGS_MIN
    assert (seeds["catalog.forgetful-catalog"], seeds["watermark.lateness-halved"]) == (SEEDS, SEEDS)
    assert all(row[2] for row in rows)


def test_no_mutant_survived_unexplained() -> None:
    """Of each module, all are killed or equivalent."""
    rows = {row[0]: [int(cell) for cell in row[1:6]] for row in read_rows("mutants/scores.md")}
    assert tuple(rows) == MODULES
    for mutants, killed, _, survived, equivalent in rows.values():
        assert survived == 0
        assert mutants == killed + equivalent
