"""The race: its options are checked before anything starts, arms take turns, and one that is wrong has no ratio."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.console import Console
from tests.bench import race
from tests.bench.errors import BenchError
from tests.bench.race_arms import BOTH, COUNTS, PROGRAMS, Arm
from tests.bench.s1_arms import Run

SMALL = ("--records", "50000", "--batch-rows", "2500", "--rounds", "2", "--bytes", "100", "--partitions", "4", "8")
SPEED = {"ours": 30.0, "Kafka Streams": 20.0, "Flink": 40.0, "Flink, dedup": 25.0, "plain Spark": 10.0}
CPU = {"ours": 12.0, "Flink": 10.0}


class Stack:
    """A place without servers, in which an arm is as fast as is said here."""

    console = Console()

    def __init__(self) -> None:
        self.topics: list[tuple[str, int]] = []
        self.runs: list[tuple[str, Run]] = []
        self.wrong: dict[str, int] = {}
        self.stops_after = 1_000

    def fill_topic(self, topic: str, values: Any, says: str, partitions: int) -> None:
        self.topics.append((topic, partitions))

    def run_arm(self, arm: str, run: Run, start: Any) -> dict[str, Any]:
        if len(self.runs) == self.stops_after:
            raise KeyboardInterrupt
        self.runs.append((arm, run))
        if self.wrong.get(arm) == len([one for one, _ in self.runs if one == arm]):
            raise BenchError(f"{arm}: 1 of 16 windows are wrong")
        program = arm.removesuffix(", counts only")
        cpu = {"arm": CPU.get(program, 50.0) - 1, "broker": 0.75, "object store": 0.25}
        return {"rows_per_s": SPEED.get(program, 5.0), "measured_s": 9.0, "cpu_s_per_million": cpu}


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    made = Stack()

    @contextmanager
    def opened() -> Iterator[Any]:
        yield made

    monkeypatch.setattr(race, "open_place", opened)
    monkeypatch.setattr(race, "run_arm", made.run_arm)
    monkeypatch.setattr("tests.bench.facts.CHECKOUT", tmp_path)
    monkeypatch.setattr("tests.bench.facts.machine", dict)
    return made


def _ask(*words: str) -> argparse.Namespace:
    given = argparse.ArgumentParser()
    race.arguments(given)
    return given.parse_args([*SMALL, *words])


def test_every_program_takes_its_turn_on_every_topic_with_accepted_rows_and_without(stack: Stack) -> None:
    text = race.measure(_ask())

    assert stack.topics == [("race_100_4", 4), ("race_100_8", 8)]
    arms = [Arm(key, accepted).name for accepted in (True, False) for key in PROGRAMS]
    assert [arm for arm, _ in stack.runs] == [*arms * 2, *([*arms[1:], arms[0]] * 2)]
    assert len({run.name for _, run in stack.runs}) == len(stack.runs)
    told = {arm: (run.module, run.accepted, run.drops) for arm, run in stack.runs}
    assert told["ours"] == ("effectively_once_jobs.user_counts", True, True)
    assert told["ours, counts only"] == ("tests.bench.s1_job", False, True)
    assert [told[name][2] for name in ("Kafka Streams", "Kafka Streams, dedup")] == [False, True]
    for line in (
        "Records of 100 bytes, 8 partitions",
        "| Flink, dedup | 25 (25 to 25) | 50.0 (50.0 to 50.0) | 49.0 | 0.8 | 0.2 |",
        "ours / Kafka Streams: 1.50 (1.50 to 1.50; target at least 1.5: met)",
        "ours, counts only / Flink, counts only: 0.75 (0.75 to 0.75; target at least 1: MISSED)",
        "ours / plain Spark: 3.00 (3.00 to 3.00; target at least 2: met)",
        "CPU seconds beside the cheapest peer: ours / Flink: 1.20 (1.20 to 1.20; target at most 1.2: met)",
        "- plain Spark: executors as ours; AT LEAST once",
    ):
        assert line in text


def test_an_arm_that_was_wrong_once_is_named_and_has_no_ratio(stack: Stack) -> None:
    stack.wrong = {"Flink": 2}

    text = race.measure(_ask("--partitions", "4", "--outputs", BOTH))

    assert "| Flink | WRONG: Flink: 1 of 16 windows are wrong | - | - | - | - |" in text
    assert "ours / Flink:" not in text
    assert "ours / Flink, dedup: 1.20" in text
    assert "cheapest peer: ours / Kafka Streams" in text


def test_ours_that_is_wrong_has_no_ratio_at_all(stack: Stack) -> None:
    stack.wrong = {"ours": 1}

    text = race.measure(_ask("--partitions", "4", "--outputs", BOTH))

    assert "| ours | WRONG: ours: 1 of 16" in text
    assert "ours / " not in text


def test_what_is_all_wrong_is_no_measurement(stack: Stack) -> None:
    stack.wrong = {"ours": 1}

    with pytest.raises(BenchError, match="every arm is wrong"):
        race.measure(_ask("--partitions", "4", "--outputs", BOTH, "--arms", "ours"))


def test_what_was_interrupted_goes_on_where_it_was(stack: Stack, tmp_path: Path) -> None:
    words = ("--outputs", COUNTS, "--arms", "ours", "flink")
    stack.stops_after = 3
    with pytest.raises(KeyboardInterrupt):
        race.measure(_ask(*words))
    (folder,) = (tmp_path / "runs" / "bench").iterdir()
    stack.stops_after = 1_000

    race.measure(_ask(*words, "--resume", str(folder)))

    assert len(stack.runs) == 2 * 2 * 2
    assert len({run.name for _, run in stack.runs}) == len(stack.runs)
    stack.topics.clear()
    race.measure(_ask(*words, "--resume", str(folder)))
    assert (len(stack.runs), stack.topics) == (8, [])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--records", "0"), "--records 0: give 1 or more"),
        (("--rounds", "0"), "--rounds 0: give 1 or more"),
        (("--bytes", "100", "85"), "--bytes 85: give 86 or more"),
        (("--partitions", "0"), "--partitions 0: give 1 or more"),
        (("--partitions", "257"), "--partitions 257: give 256 or less"),
        (("--bytes", "100", "100"), "--bytes 100 100: name each once"),
        (("--arms", "ours", "ours"), "--arms ours ours: name each once"),
        (("--outputs", "both", "both"), "--outputs both both: name each once"),
        (("--batch-rows", "0"), "--batch-rows 0: give 1 or more"),
        (("--batch-rows", "4917"), "--batch-rows 4,917: a batch is longer than windows wait; give 4,916 or less"),
        (("--records", "8", "--batch-rows", "1"), "a batch is longer than windows wait; give 0 or less"),
    ],
)
def test_options_that_make_no_measurement_are_refused_before_anything_starts(
    stack: Stack, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    with pytest.raises(BenchError, match=why):
        race.measure(_ask(*words))
    assert not (tmp_path / "runs").exists()
    assert stack.runs == []


def test_names_are_those_of_pipelines(stack: Stack) -> None:
    race.measure(_ask("--bytes", "100000", "--partitions", "256", "--rounds", "1"))

    assert max(len(run.name) for _, run in stack.runs) <= 41
