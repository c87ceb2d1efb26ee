"""The table of crashes in docs/explanation/protocol.md names tests that are there, and leaves none out."""

from __future__ import annotations

import re

from infra.cluster.access import CHECKOUT
from tests.spark import test_crash_points as crashes
from tests.spark import test_whole_input as whole_input
from tests.spark.attacked import IN_DRIVER, IN_TASKS

PAGE = CHECKOUT / "docs" / "explanation" / "protocol.md"
CRASHES, OUTLIVING = "## What a crash leaves between any two steps", "### A task that outlives its input or its JVM"
BY_NAME = ("test_killed_between_two_batches", "test_killed_while_stopping")


def _named(heading: str = CRASHES) -> list[list[str]]:
    """What the last column of each row of the first table below a heading has in back quotes."""
    table = PAGE.read_text().split(f"{heading}\n")[1].split("\n#")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if re.match(r"\| (?!-)", line)][1:]
    return [re.findall(r"`([^`]+)`", row[-1]) for row in rows]


def test_every_row_names_a_test_that_is_there() -> None:
    known = {*IN_TASKS, *IN_DRIVER, "started", "taken_over", *BY_NAME}
    for names in _named():
        assert names
        for name in names:
            assert name in known or (CHECKOUT / name).is_file(), name
    assert all(hasattr(crashes, name) for name in BY_NAME)


def test_every_point_that_is_tested_is_in_the_table() -> None:
    named = {name for names in _named() for name in names}
    assert {*IN_TASKS, *IN_DRIVER} - named == set()


def test_every_order_of_a_task_that_outlives_its_input_names_a_test_that_is_there() -> None:
    rows = _named(OUTLIVING)
    assert len(rows) == len("abcdef")
    points = {*IN_TASKS, *IN_DRIVER}
    for names in rows:
        tests = [name for name in names if name.startswith("test") or name in points]
        assert tests, names
        for name in tests:
            assert name in points or hasattr(whole_input, name) or (CHECKOUT / name).is_file(), name
