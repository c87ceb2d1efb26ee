"""How far a soak is: what runs next, what counts, and that an interrupt at any point loses nothing but what it hit."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.mixture import STACKS, Stack
from tests.harness.results import Verdict
from tests.harness.soak.plan import Part, PlanError
from tests.harness.soak.state import TRIES, PlanChangedError, Standing, State

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


def part(number: int, stack: Stack = "embedded") -> Part:
    return Part(name=f"p{number}", stack=stack, seed=number, faults="zombie", records=100)


PARTS = (part(1), part(2, "cluster"), part(3))
BEGUN = State(name="plan", parts=PARTS)


def after(*ends: tuple[int, Verdict]) -> State:
    """The state after runs of parts, by their number, with these ends."""
    state = BEGUN
    for at, (number, verdict) in enumerate(ends):
        state = state.begun(PARTS[number - 1], at).ended(f"run-{at}", verdict, 10.0)
    return state


@pytest.mark.parametrize(
    ("ends", "following", "verdict"),
    [
        ([], "p1", UNKNOWN),
        ([(1, PASS)], "p2", UNKNOWN),
        ([(1, PASS), (2, PASS), (3, PASS)], None, PASS),
        ([(1, FAIL)], None, FAIL),
        ([(1, PASS), (3, FAIL)], None, FAIL),
        ([(1, UNKNOWN)], "p1", UNKNOWN),
        ([(1, UNKNOWN), (1, UNKNOWN)], "p2", UNKNOWN),
        ([(1, UNKNOWN), (1, PASS), (2, PASS), (3, PASS)], None, PASS),
        ([(1, UNKNOWN), (1, FAIL)], None, FAIL),
        ([(1, UNKNOWN), (1, UNKNOWN), (2, PASS), (3, PASS)], None, UNKNOWN),
    ],
)
def test_what_is_next_and_what_it_came_to(
    ends: list[tuple[int, Verdict]], following: str | None, verdict: Verdict
) -> None:
    state = after(*ends)
    found = state.next_part(STACKS)
    assert (found.name if found else None) == following
    assert state.verdict(STACKS) is verdict


def test_the_sum_is_made_of_the_newest_run_of_each_part_in_the_order_of_the_parts() -> None:
    assert after((2, PASS), (1, UNKNOWN), (1, PASS)).runs() == ["run-2", "run-0"]
    assert after((1, UNKNOWN)).runs() == ["run-0"]
    assert BEGUN.begun(PARTS[0], 1).runs() == []


def test_only_parts_of_the_stacks_that_were_asked_for_are_next_and_judged() -> None:
    state = after((1, PASS), (3, PASS))
    assert state.next_part(["embedded"]) is None
    assert state.verdict(["embedded"]) is PASS
    assert (state.next_part(["cluster"]), state.verdict(["cluster"])) == (PARTS[1], UNKNOWN)
    assert state.verdict(STACKS) is UNKNOWN
    failed = after((2, FAIL))
    assert failed.next_part(["embedded"]) is None, "a failure on another stack stops this one too"
    assert failed.verdict(["embedded"]) is FAIL


def test_a_part_that_could_not_be_started_is_left_for_the_next_call() -> None:
    assert BEGUN.next_part(STACKS, {"p1"}) == PARTS[1]
    assert BEGUN.next_part(STACKS) == PARTS[0]


def test_an_interrupted_run_does_not_count() -> None:
    state = after((1, PASS)).begun(PARTS[1], 5)
    assert state.open is not None
    assert state.standing("p2") is Standing.WAITING
    assert state.without_open() == after((1, PASS))
    again = state.begun(PARTS[1], 9).attempts
    assert (again[:-1], len(again)) == (after((1, PASS)).attempts, 2)
    with pytest.raises(ValueError, match="run x ended, and none is open"):
        BEGUN.ended("x", PASS)


def test_a_part_that_is_asked_for_again_waits_and_what_it_came_to_is_kept() -> None:
    state = after((1, FAIL), (2, PASS)).again("p1")
    assert state.next_part(STACKS) == PARTS[0]
    assert [(one.run, one.verdict, one.set_aside) for one in state.attempts] == [
        ("run-0", FAIL, True),
        ("run-1", PASS, False),
    ]
    assert state.runs() == ["run-1"]
    with pytest.raises(PlanError, match="plan has no part 'p9'; it has: p1, p2, p3"):
        state.again("p9")


@pytest.mark.parametrize(
    ("name", "parts", "said"),
    [
        ("other", PARTS, "was begun with the plan plan, not other"),
        ("plan", PARTS[:2], "had more parts when this soak was begun, p3"),
        (
            "plan",
            (PARTS[0], PARTS[2], PARTS[1]),
            r"part 2 of the plan was p2 \(.*\) when this soak was begun, and is p3",
        ),
        (
            "plan",
            (PARTS[0].model_copy(update={"records": 200}), *PARTS[1:]),
            "--records 100 --no-controls, embedded.*--records 200",
        ),
    ],
)
def test_a_plan_that_changed_is_refused(name: str, parts: tuple[Part, ...], said: str) -> None:
    for state in (BEGUN, after((1, PASS), (2, PASS))):
        with pytest.raises(PlanChangedError, match=said) as raised:
            state.grown(name, parts)
        assert "begin another soak" in str(raised.value)


def test_a_plan_may_grow_at_its_end() -> None:
    state = after((1, PASS)).grown("plan", (*PARTS, part(4)))
    assert [one.name for one in state.parts] == ["p1", "p2", "p3", "p4"]
    assert state.attempts == after((1, PASS)).attempts
    assert after((1, PASS)).grown("plan", PARTS) == after((1, PASS))


ENDS = st.lists(st.sampled_from([PASS, UNKNOWN, None]), max_size=40)


@given(ends=ENDS, cut=st.lists(st.booleans(), min_size=40, max_size=40))
def test_interrupted_anywhere_each_part_passes_once_or_stays_unknown(
    ends: list[Verdict | None], cut: list[bool]
) -> None:
    """A run ends with a verdict or with none (interrupted); between any two writes the state may be read anew."""
    state, runs = BEGUN, Counter[str]()
    for number, (verdict, reread) in enumerate(zip(ends, cut, strict=False)):
        following = state.next_part(STACKS)
        if following is None:
            break
        state = state.begun(following, number)
        if reread:
            state = State.model_validate_json(state.model_dump_json())
        if verdict is None:
            state = state.without_open() if reread else state  # killed: the next start finds it open
            continue
        runs[following.name] += 1
        state = state.ended(f"run-{number}", verdict)
    assert sum(one.verdict is None for one in state.attempts) <= 1
    for one in PARTS:
        verdicts = [of.verdict for of in state.counting(one.name)]
        assert len(verdicts) == runs[one.name] <= TRIES
        assert PASS not in verdicts[:-1], "a part that passed is not run again"
    if state.next_part(STACKS) is None:
        assert len(state.runs()) == len(PARTS)
        assert state.verdict(STACKS) in (PASS, UNKNOWN)


@given(ends=ENDS)
def test_a_state_is_read_as_it_was_written(ends: list[Verdict | None]) -> None:
    state = BEGUN
    for number, verdict in enumerate(ends):
        state = state.begun(PARTS[number % 3], number)
        state = state if verdict is None else state.ended(f"run-{number}", verdict, 1.25)
    assert State.model_validate_json(state.model_dump_json()) == state
