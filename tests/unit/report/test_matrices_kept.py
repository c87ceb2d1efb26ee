"""The kept matrix of planted bugs and the kept table of mutants: nothing in them got through."""

from __future__ import annotations

import re

from infra.toolchain.prepare import CHECKOUT

KEPT = CHECKOUT / "docs" / "evidence"
SEEDS = 3
BUGS_MIN = 60
"""Bugs in whose plays something is drawn, so that one seed could be luck."""
MODULES = ("ledger", "catalog", "state", "sinks", "windows", "messages")


def read_rows(name: str) -> list[list[str]]:
    """Read the cells of each line of a kept Markdown file that is a row of its first table, without its head."""
    text = (KEPT / name).read_text(encoding="utf-8").split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_planted_bug_was_caught_and_a_campaign_by_three_seeds() -> None:
    """The two that once passed a whole demo are among them."""
    rows = read_rows("planted/matrix.md")
    caught = f"{len(rows)} of {len(rows)} planted bugs were caught. The correct product passed every run of them."
    assert caught in (KEPT / "planted" / "matrix.md").read_text(encoding="utf-8")
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
