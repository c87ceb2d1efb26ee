"""A soak runs the parts that wait, stops at a failure, and goes on where it was interrupted."""

from __future__ import annotations

import os
import signal
import threading
import time
from itertools import count
from pathlib import Path

import orjson
import pytest

from tests.harness.results import Verdict
from tests.harness.soak.__main__ import main, run_part
from tests.harness.soak.plan import Part
from tests.harness.soak.state import State
from tests.unit.harness.soak_runs import Runs
from tests.unit.report.parsed_page import parse

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN
PLAN = """
name = "small"
[[part]]
name = "one"
stack = "embedded"
seed = 1
faults = "executor-kill*2"
records = 1000
[[part]]
name = "two"
stack = "cluster"
seed = 2
faults = "operator-kill"
records = 1000
controls = true
[[part]]
name = "three"
stack = "embedded"
seed = 3
faults = "zombie"
records = 1000
"""


ONE = Part(name="one", stack="embedded", seed=1, faults="executor-kill*2", records=1000)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Return an empty `runs` below the working directory, with a plan beside it."""
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(PLAN)
    Path("runs").mkdir()
    return Runs(Path("runs"))


def soak(runs: Runs, *words: str, plan: bool = True) -> int:
    return main([*(("--plan", "plan.toml") if plan else ()), "--at", "sum", *words], play=runs, runs=runs.path)


def state() -> State:
    return State.model_validate_json(Path("sum/state.json").read_bytes())


def summed() -> list[str]:
    """The runs that the sum was made of."""
    return [Path(one["run"]).name for one in orjson.loads(Path("sum/results.json").read_bytes())["parts"]]


def test_all_parts_are_run_in_order_and_added_up(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert soak(runs) == 0
    assert runs.played == ["one", "two", "three"]
    assert len(summed()) == 3
    assert Path("sum/report.html").is_file()
    assert soak(runs) == 0
    assert runs.played == ["one", "two", "three"], "what passed is not run again"
    told = capsys.readouterr()
    assert "part 2 of 3, two: cluster, seed 2, 1,000 records, operator-kill" in told.err + told.out


def test_the_index_of_runs_leads_to_the_sum(runs: Runs) -> None:
    assert main(["--plan", "plan.toml"], play=runs, runs=runs.path) == 0
    links = [link.attributes["href"] for link in parse(Path("runs/index.html").read_text()).all("a")]
    assert "soak/small/report.html" in links
    assert len(links) == 4
    assert all(Path("runs", link or "").is_file() for link in links)


def test_a_failure_stops_it_and_is_not_run_away_from(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    runs.ends = {"two": [FAIL]}
    assert soak(runs) == 1
    assert soak(runs) == 1
    assert runs.played == ["one", "two"]
    told = capsys.readouterr()
    assert "ARGS='--again two' sets it aside" in told.err + told.out


def test_a_failed_part_is_run_again_only_when_asked_for_and_stays_in_the_state(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.ends = {"one": [FAIL]}
    assert soak(runs) == 1
    failed = summed()
    assert soak(runs, "--again", "one") == 0
    assert runs.played == ["one", "one", "two", "three"]
    assert [one.verdict for one in state().attempts if one.set_aside] == [FAIL]
    assert failed[0] not in summed()
    told = capsys.readouterr()
    assert f"set aside: {failed[0]}, fail, of one" in told.err + told.out


def test_an_unknown_part_is_run_once_more_then_kept(runs: Runs) -> None:
    runs.ends = {"one": [UNKNOWN], "three": [UNKNOWN, UNKNOWN, UNKNOWN]}
    assert soak(runs) == 2
    assert runs.played == ["one", "one", "two", "three", "three"]
    assert soak(runs) == 2
    assert len(runs.played) == 5
    assert [one["verdict"] for one in orjson.loads(Path("sum/results.json").read_bytes())["parts"]] == [
        "pass",
        "pass",
        "unknown",
    ]


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(143)])
@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_after_an_interrupt_it_goes_on_with_the_part_that_was_under_way(
    runs: Runs, name: str, end: BaseException
) -> None:
    runs.ends = {name: [end]}
    assert soak(runs) == (143 if isinstance(end, SystemExit) else 130)
    left = {path.name for path in Path("runs").glob("2*") if not (path / "results.json").exists()}
    assert soak(runs) == 0
    assert [runs.played.count(one) for one in ("one", "two", "three")] == [
        1 + (name == one) for one in ("one", "two", "three")
    ]
    assert len(left) == 1
    assert not left & set(summed())


def test_a_run_that_was_judged_before_its_end_could_be_noted_counts(runs: Runs) -> None:
    class KilledError(BaseException):
        """Nothing is written after it, as after SIGKILL."""

    def killed(part: Part) -> None:
        runs(part)
        if part.name == "two":
            raise KilledError

    with pytest.raises(KilledError):
        main(["--plan", "plan.toml", "--at", "sum"], play=killed, runs=runs.path)
    assert state().open is not None
    assert soak(runs) == 0
    assert runs.played == ["one", "two", "three"]
    assert len(summed()) == 3


def test_an_older_run_of_the_same_part_does_not_count_by_itself(runs: Runs) -> None:
    older = runs.made(ONE, PASS)
    time.sleep(0.002)
    runs.ends = {"one": [None]}
    assert soak(runs, "--on", "embedded") == 2
    assert older.name not in summed()


def test_a_run_of_something_else_at_the_same_time_does_not_count(runs: Runs) -> None:
    def beside(_: Part) -> None:
        runs.made(ONE.model_copy(update={"seed": 99}), PASS)

    assert main(["--plan", "plan.toml", "--at", "sum"], play=beside, runs=runs.path) == 2
    assert state().attempts == ()


def test_a_part_that_leaves_no_verdict_is_tried_again_by_the_next_call(runs: Runs) -> None:
    runs.ends = {"two": [None]}
    assert soak(runs) == 2
    assert runs.played == ["one", "two", "three"]
    assert soak(runs) == 0
    assert runs.played == ["one", "two", "three", "two"]


def test_runs_that_were_started_by_hand_are_counted_when_they_are_named(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand = runs.made(ONE, PASS)
    assert soak(runs, "--take", str(by_hand)) == 0
    assert runs.played == ["two", "three"]
    assert by_hand.name in summed()
    assert soak(runs, "--take", str(by_hand)) == 2
    assert "is counted already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"records": 999}, "no part has its settings"),
        ({"seed": 4}, "no part has its settings"),
        ({}, "results.json is missing"),
    ],
)
def test_a_run_of_no_part_is_not_counted(
    runs: Runs, capsys: pytest.CaptureFixture[str], change: dict[str, int], said: str
) -> None:
    other = runs.made(ONE.model_copy(update=change), PASS if change else None)
    assert soak(runs, "--take", str(other)) == 2
    assert said in capsys.readouterr().err
    assert runs.played == []


def test_a_plan_that_changed_is_refused_and_nothing_is_run(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert soak(runs, "--on", "embedded") == 0
    Path("plan.toml").write_text(PLAN.replace("seed = 2", "seed = 22"))
    assert soak(runs) == 2
    assert "part 2 of the plan was two (" in capsys.readouterr().err
    assert runs.played == ["one", "three"]


def test_a_state_that_cannot_be_read_and_runs_that_are_gone_are_named(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak(runs, "--on", "embedded") == 0
    (Path("runs") / summed()[0]).rename("elsewhere")
    assert soak(runs) == 2
    assert "there is no run directory" in capsys.readouterr().err
    assert "two" not in runs.played
    Path("sum/state.json").write_text('{"format": 1}')
    assert soak(runs) == 2
    assert "sum/state.json: name: Field required" in capsys.readouterr().err


def test_one_soak_at_a_time_in_a_folder(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []

    def within(part: Part) -> None:
        codes.append(soak(Runs(runs.path)))
        runs(part)

    assert main(["--plan", "plan.toml", "--at", "sum"], play=within, runs=runs.path) == 0
    assert codes == [2, 2, 2]
    assert "another soak is at work in sum" in capsys.readouterr().err


def test_without_a_plan_parts_are_drawn_until_the_hours_are_over(runs: Runs) -> None:
    hours = count()

    def of_one_hour(*words: str) -> int:
        # Each part begins and ends by this clock: an hour.
        clock = lambda: 3600.0 * next(hours)  # noqa: E731
        return main([*words, "--at", "sum"], play=runs, runs=runs.path, seconds=clock)

    assert of_one_hour("--hours", "2.5", "--seed", "5") == 0
    assert runs.played == ["part-1", "part-2", "part-3"]
    assert of_one_hour("--hours", "2.5", "--seed", "5") == 0
    assert len(runs.played) == 3, "its hours are over"
    assert of_one_hour("--hours", "4") == 0
    assert len(runs.played) == 4, "an hour more"
    assert {one.stack for one in state().parts} == {"embedded"}
    assert soak(runs, "--seed", "6", plan=False) == 2
    assert soak(runs) == 2, "it was begun without a plan"


def test_without_a_plan_a_stack_that_is_not_there_ends_it(runs: Runs) -> None:
    runs.ends = {"part-1": [None]}
    assert soak(runs, "--on", "cluster", plan=False) == 2
    assert runs.played == ["part-1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--plan", "plan.toml", "--seed", "1"], "HOURS= and SEED= do not go with PLAN="),
        (["--plan", "absent.toml"], "PLAN=absent.toml cannot be read"),
        (["--hours", "0"], "HOURS=0: more than 0"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(
    runs: Runs, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--at", "sum"], play=runs, runs=runs.path) == 2
    assert said in capsys.readouterr().err
    assert not Path("sum/state.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_ends_a_soak_lets_the_run_undo_its_fault_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Every part is a process that writes what becomes of it into a file."""
    told = tmp_path / "told"
    monkeypatch.setattr(Part, "command", property(lambda _: ("tests.unit.harness.soak_runs", str(told))))

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, end)

    def soon() -> None:
        deadline = time.monotonic() + 30
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=soon).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_part(ONE)
    finally:
        signal.signal(number, before)
    assert told.read_text() == "undone"
