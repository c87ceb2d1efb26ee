"""The table of negative controls: what the harness knows of each, its job knows too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.harness.controls import job
from tests.harness.controls.names import EVERY, QUICK, NegativeControl
from tests.harness.controls.run import topics_of
from tests.harness.controls.shape import TRIES, shape_of
from tests.harness.manifest import EVERY_NEGATIVE_CONTROL, NEGATIVE_CONTROLS
from tests.harness.report.controls import OTHERWISE, why


def named(name: str) -> NegativeControl:
    return next(one for one in EVERY if one.name == name)


def test_the_seven_controls_of_the_design_are_there_and_planned_to_fail() -> None:
    assert [one.name for one in EVERY] == [
        "spark_kafka_sink",
        "append_without_mark",
        "two_drivers",
        "catalog_off",
        "uncommitted_reader",
        "mark_first",
        "bloom_alone",
    ]
    assert EVERY[: len(QUICK)] == QUICK
    for planned, controls in ((NEGATIVE_CONTROLS, QUICK), (EVERY_NEGATIVE_CONTROL, EVERY)):
        assert [(one.name, one.must) for one in planned] == [(one.name, "fail") for one in controls]
    assert {one.shows for one in EVERY} == {"duplicated", "missing", "retracted"}


def test_the_job_plays_what_the_harness_asks_for() -> None:
    asked = {one.name: (one.records, one.drivers) for one in EVERY}
    assert {name: (one.round_rows, one.drivers) for name, one in job.CONTROLS.items()} == asked


def test_the_job_imports_nothing_of_the_repository_but_the_wheel() -> None:
    """A pod has this one file."""
    tree = ast.parse(Path(job.__file__).read_text(encoding="utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert not {one for one in modules if one.split(".")[0] in ("tests", "infra", "images")}


@pytest.mark.parametrize("control", EVERY, ids=lambda one: one.name)
def test_the_report_says_of_each_why_it_must_fail(control: NegativeControl) -> None:
    assert why(control.name) != OTHERWISE
    assert [one.name for one in EVERY if why(one.name) == why(control.name)] == [control.name]


def test_what_is_sent_is_sent_once_unless_copies_are_judged() -> None:
    """Else what is twice in the output could be the input's doing."""
    for one in EVERY:
        numbers = shape_of(one).numbers
        assert (numbers.sent, numbers.late_sent, numbers.malformed_sent) == (one.records * TRIES, 0, 0)
        assert bool(numbers.duplicates_sent) == (one.name in ("catalog_off", "bloom_alone"))


def test_drivers_of_one_output_have_marks_of_their_own() -> None:
    records, marks = topics_of("nc", [named("spark_kafka_sink"), named("two_drivers"), named("mark_first")])
    assert set(records) == {
        f"nc.{name}.{kind}"
        for name in ("spark_kafka_sink", "two_drivers", "mark_first")
        for kind in ("events", "accepted")
    }
    assert set(marks) == {
        "nc.two_drivers.accepted.first.progress",
        "nc.two_drivers.accepted.second.progress",
        "nc.mark_first.accepted.progress",
    }


def test_marks_go_where_the_topics_are() -> None:
    for one in EVERY:
        _, marks = topics_of("nc", [one])
        used = {job.Output("b", f"nc.{one.name}", driver).shard(0).progress for driver in one.drivers}
        assert not marks or set(marks) == used
