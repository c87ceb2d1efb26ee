"""An operator who repairs the declared epoch, of which a shard may have shown too little: exact, whoever goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.model.repair_game import Repair
from tests.model.rules import Pipeline

SLOW = pytest.mark.slow
COPY = (("b", 0), ("a", 0), ("a", 0))
KAFKA = Repair(Pipeline(("kafka",), COPY, (3, 3)))
TABLE = Repair(Pipeline(("table",), COPY, (3, 3)))
FILES = Repair(Pipeline(("files", "kafka"), COPY, (3, 3)), dead_letter=True)
KAFKA_AND_TABLE = Repair(Pipeline(("kafka", "table"), COPY, (3, 3)))
WITHOUT_IDS = Repair(Pipeline(("kafka",), (("a", 0), ("b", 0)), (2, 2)), attached=False)
# No recorded values.
PLAIN = Repair(Pipeline(("kafka",), COPY, (3, 3), recorded=False))
TWO_SINKS = Repair(Pipeline(("kafka", "kafka"), COPY, (3, 3), recorded=False))
TWO_EPOCHS = Repair(Pipeline(("kafka",), (*COPY, ("c", 0)), (3, 3), recorded=False))
SECOND_EPOCH = Repair(Pipeline(("kafka",), (("c", 0), *COPY), (1, 3), recorded=False), epoch=1)
APART = replace(WITHOUT_IDS, pipeline=replace(WITHOUT_IDS.pipeline, recorded=False))
# A part of the first epoch has a time that closes the window of the rest.
TIMED = Repair(Pipeline(("kafka",), (("b", 5), ("a", 0), ("c", 5)), (2, 2), recorded=False))

PINNED = "is published with digest"


@pytest.mark.parametrize(
    ("repair", "losses", "deaths", "states"),
    [
        (KAFKA, 0, 29, 550),
        pytest.param(WITHOUT_IDS, 0, 20, 340, marks=SLOW),
        pytest.param(FILES, 0, 38, 900, marks=SLOW),
        pytest.param(TABLE, 0, 24, 440, marks=SLOW),
        pytest.param(TWO_SINKS, 0, 1, 920, marks=SLOW),
        pytest.param(KAFKA_AND_TABLE, 0, 41, 1_100, marks=SLOW),
        pytest.param(SECOND_EPOCH, 0, 26, 600, marks=SLOW),
        pytest.param(PLAIN, 1, 100, 5_200, marks=SLOW),
    ],
)
def test_wherever_a_driver_died_the_command_and_the_next_driver_are_enough(
    repair: Repair, losses: int, deaths: int, states: int
) -> None:
    """Every driver is stopped. The command may die too, and is run again."""
    found = list(repair.stopped(losses))
    for each in found:
        assert each.hole is None, "\n".join((each.hole, *each.way))
    assert len(found) >= deaths, "the exploration was cut short"
    assert sum(each.states for each in found) >= states, "the exploration was cut short"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("repair", "second", "beside", "states"),
    [
        (KAFKA, "r_start", False, 5_900),
        pytest.param(FILES, "r_start", False, 11_500, marks=SLOW),
        pytest.param(TABLE, "start", True, 53_000, marks=SLOW),
        pytest.param(KAFKA, "start", True, 223_000, marks=SLOW),
        pytest.param(TWO_EPOCHS, "start", True, 277_000, marks=SLOW),
        pytest.param(WITHOUT_IDS, "start", True, 85_000, marks=SLOW),
        pytest.param(FILES, "start", True, 1_000_000, marks=SLOW),
        pytest.param(KAFKA_AND_TABLE, "r_start", False, 12_600, marks=SLOW),
        pytest.param(SECOND_EPOCH, "r_start", False, 4_500, marks=SLOW),
    ],
)
def test_while_drivers_live_nothing_is_changed_doubled_or_lost(
    repair: Repair, second: str, beside: bool, states: int
) -> None:
    """A broken driver, another one, and operators before it or beside both; at worst the command is run again."""
    found = repair.living(second=second, beside=beside)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"
    assert "stale" in found.ends, "the exploration is vacuous"
    assert any(PINNED in how for how in found.ends), "the exploration is vacuous"


DEAD: list[tuple[str, Repair, dict[str, Any], dict[str, Any], str, int]] = [
    ("an epoch takes all rows though some are pinned", PLAIN, {"takes_shown": False}, {}, PINNED, 4),
    ("its repair takes rows that are shown", APART, {"takes_rest": False}, {}, "doubled", 10),
    ("the repair is left out", PLAIN, {"repairs_first": False}, {}, "after recovery sink 0 holds", 4),
    ("the repair has a watermark of its own", TIMED, {"pins_watermark": False}, {}, "after recovery sink 0 holds", 5),
    ("one sink is asked, and another shows more", TWO_SINKS, {}, {"looks_at": (1,)}, PINNED, 4),
]
LIVING: list[tuple[str, Repair, dict[str, Any], str, int]] = [
    ("head is pinned although a driver goes on", TWO_EPOCHS, {"pins_conditionally": False}, "the mark of shard 0", 12),
    ("what nobody has seen is deleted", TWO_EPOCHS, {"deletes": True}, "a delta that the chain names is missing", 14),
]
"""What is left out, the pipeline, of drivers and of the operator, what is found, and in how many steps."""


@pytest.mark.parametrize(
    ("repair", "drivers", "operators", "hole", "steps"), [pytest.param(*case, id=what) for what, *case in DEAD]
)
@pytest.mark.thinned(2)
def test_a_rule_left_out_leaves_a_hole_where_drivers_are_stopped(
    repair: Repair, drivers: dict[str, Any], operators: dict[str, Any], hole: str, steps: int
) -> None:
    left_out = replace(repair, drivers=drivers, operators=operators)
    found = next(each for each in left_out.stopped() if each.hole is not None)
    assert found.hole is not None
    assert hole in found.hole
    assert len(found.way) == steps, "\n".join(found.way)


@pytest.mark.parametrize(
    ("repair", "operators", "hole", "steps"), [pytest.param(*case, id=what) for what, *case in LIVING]
)
@pytest.mark.thinned(2)
def test_a_rule_left_out_leaves_a_hole_while_drivers_live(
    repair: Repair, operators: dict[str, Any], hole: str, steps: int
) -> None:
    found = replace(repair, operators=operators).living(second="start", beside=True)
    assert found.hole is not None
    assert hole in found.hole
    assert len(found.way) == steps, "\n".join(found.way)


@pytest.mark.slow
def test_without_ending_what_drivers_left_open_a_commit_takes_place_after_the_look() -> None:
    """A commit of unknown outcome: one repair is not enough then, though every driver is stopped."""
    left_out = replace(PLAIN, operators={"opens": False})
    found = next(each for each in left_out.stopped(losses=1) if each.hole is not None)
    assert found.hole is not None
    assert PINNED in found.hole
    assert len(found.way) == 15, "\n".join(found.way)
