"""The page of the model says which command explores what: as the marks have it."""

from __future__ import annotations

from collections import Counter

from infra.toolchain.prepare import CHECKOUT
from tests.model.test_two_drivers import CASES, Case

PAGE = CHECKOUT / "docs" / "explanation" / "protocol-model.md"
COLUMNS = {
    "| pipeline | lost answers | failed tasks |": ("lost", "failed"),
    "| pipeline | failed tasks |": ("failed",),
    "| pipeline | lost answers | states |": ("lost",),
}


def _run_by(case: Case) -> str:
    return "`make test-all`" if case.slow else "`make test-core`" if case.deep else "`make test`"


def _read_rows() -> Counter[tuple[str, ...]]:
    """Of each row of the tables of two drivers: pipeline, numbers of its columns, command."""
    section = PAGE.read_text().split("## Explorations", 1)[1].split("\n## ", 1)[0]
    rows, columns = Counter[tuple[str, ...]](), 0
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        head = next((len(names) for start, names in COLUMNS.items() if line.startswith(start)), 0)
        if head:
            columns = head
        elif line.startswith("|") and not line.startswith("| --"):
            rows[(*cells[: columns + 1], cells[-1])] += 1
    return rows


def test_each_exploration_is_in_the_page_with_the_command_that_runs_it() -> None:
    meant = Counter[tuple[str, ...]]()
    for case in CASES:
        numbers = (case.failures,) if case.early else (case.losses,) if case.forgets else (case.losses, case.failures)
        meant[(case.name, *map(str, numbers), _run_by(case))] += 1
    assert _read_rows() == meant
