"""What came of mutants is read, scored and told; explanations that do not hold are errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.mutants import run
from tests.mutants.explained import Explanation, read_explanations
from tests.mutants.module import Module, MutantsError, pick, read_modules
from tests.mutants.outcome import Mutant, Outcome, end_of, read_outcome
from tests.mutants.score import scored
from tests.mutants.table import markdown, percent
from tests.mutants.trial import Say, digest, go, progress
from tests.planted import state

WINDOWS = pick(read_modules(), ["windows"])[0]
ENTRY = """
[[equivalent]]
module = "windows"
function = "windows.f"
old = "a | b"
new = ["b | a", "a or b"]
why = "Both are truths, and the order is the same."
"""


def mutant(new: str, end: Any = "survived", function: str = "windows.f", old: str = "a | b") -> Mutant:
    return Mutant(name=new, function=function, old=old, new=new, diff=f"-{old}\n+{new}", end=end)


def outcome(*mutants: Mutant, module: str = "windows", key: str = "d", tests: tuple[str, ...] = ()) -> Outcome:
    return Outcome(module=module, digest=key, tests=tests, mutants=mutants, spared=3, seconds=61.5)


class Player:
    """Plays nothing: what it is asked for is kept, and mutants end as is said."""

    def __init__(self, *mutants: Mutant, again: Sequence[Mutant] = ()) -> None:
        """`again` are those of a module of which some were killed before."""
        self._mutants, self._again = mutants, again
        self.played: list[tuple[tuple[str, ...], list[str]]] = []

    def __call__(self, module: Module, _: Say, killed: Sequence[str]) -> Outcome:
        self.played.append((module.tests, [*killed]))
        found = self._again if killed else self._mutants
        return outcome(*found, module=module.name, key=digest(module), tests=module.tests)


def explanations(tmp_path: Path, text: str = ENTRY) -> list[Explanation]:
    (tmp_path / "equivalent.toml").write_text(text)
    return read_explanations(["windows"], tmp_path / "equivalent.toml")


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (0, "survived"),
        (1, "killed"),
        (2, "killed"),
        (3, "killed"),
        (-11, "killed"),
        (-24, "time"),
        (-9, "time"),
        (33, "untested"),
        (5, "untested"),
    ],
)
def test_the_exit_code_of_its_tests_tells_the_end_of_a_mutant(code: int, end: str) -> None:
    assert end_of("m", code) == end
    with pytest.raises(MutantsError, match="mutant m was not played"):
        end_of("m", None)


def test_what_mutmut_leaves_is_read_by_mutant(tmp_path: Path) -> None:
    module = Module(name="little", sources=("state/lateness.py",), tests=())
    change = {"name": "x_f__mutmut_1", "function": "f", "old": "a", "new": "b", "diff": "-a\n+b"}
    for path, told in (
        ("made/src/effectively_once/state/lateness.py.json", {"spared": 2, "mutants": [change]}),
        (
            "mutants/src/effectively_once/state/lateness.py.meta",
            {"exit_code_by_key": {"effectively_once.state.lateness.x_f__mutmut_1": 1}},
        ),
    ):
        with pytest.raises(MutantsError, match=f"mutmut left no {Path(path).name}"):
            read_outcome(module, tmp_path, "d", 1.0)
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(json.dumps(told))
    found = read_outcome(module, tmp_path, "d", 1.23)
    name = "effectively_once.state.lateness.x_f__mutmut_1"
    assert found.mutants == (
        Mutant(name=name, function="state.lateness.f", old="a", new="b", diff="-a\n+b", end="killed"),
    )
    assert (found.spared, found.seconds, found.tests) == (2, 1.2, ())


def test_the_score_is_of_mutants_that_change_anything(tmp_path: Path) -> None:
    told = explanations(tmp_path)
    found = scored(
        outcome(mutant("b | a"), mutant("a or b"), mutant("c"), *[mutant("d", "killed")] * 8, mutant("e", "time")), told
    )
    assert (found.made, found.killed, found.by_time, found.equivalent, found.spared) == (12, 9, 1, 2, 3)
    assert found.survivors == (mutant("c"),)
    assert found.share == 0.9
    assert found.reached
    assert not scored(outcome(mutant("c"), mutant("d", "untested"), mutant("e", "killed")), []).reached
    below = scored(outcome(*[mutant("c")] * 1001, *[mutant("d", "killed")] * 9000), [])
    assert percent(below) == "89.9 %", "not rounded up to the least"


def test_an_explained_mutant_that_is_not_made_any_more_or_is_killed_is_an_error(tmp_path: Path) -> None:
    found = scored(outcome(mutant("a or b", "killed"), mutant("c", "killed")), explanations(tmp_path))
    gone, killed = found.wrong
    assert gone == "the explained mutant windows.f: 'b | a' is not made any more: take its entry out of equivalent.toml"
    assert killed == "the explained mutant windows.f: 'a or b' ended as killed: it changes something after all"
    assert found.share == 1.0
    assert not found.reached


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"windows"', '"gates"', "explains mutants of gates, which is no module"),
        ("Both are truths, and the order is the same.", "Harmless.", "why"),
        ('"a or b"', '"b | a"', "explains a mutant twice"),
        ("old =", "olds =", "cannot be read"),
        ("new =", "news =", "cannot be read"),
        ("[[equivalent]]", "[[equivalent]", "cannot be read"),
    ],
)
def test_an_explanation_that_says_too_little_or_too_much_is_refused(
    old: str, new: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(MutantsError, match=says):
        explanations(tmp_path, ENTRY.replace(old, new))


def test_the_table_lists_each_survivor_and_each_equivalent(tmp_path: Path) -> None:
    told = explanations(tmp_path)
    found = scored(outcome(mutant("b | a"), mutant("a or b"), mutant("c"), mutant("d", "untested")), told)
    page = markdown([found], told, "d" * 64)
    assert "| windows | 4 | 0 | 0 | 2 | 2 | **0.0 %** | 3 | 62 |" in page
    assert "1. `windows.f`, all tests pass\n\n```diff\n-a | b\n+c\n```" in page
    assert "2. `windows.f`, no test calls the function" in page
    assert "| `windows.f` | `a \\| b` | `b \\| a`<br>`a or b` | Both are truths, and the order is the same. |" in page


def test_a_module_that_was_played_is_kept(tmp_path: Path) -> None:
    player, said = Player(mutant("c", "killed")), list[object]()
    first = go([WINDOWS], tmp_path, said.append, player)
    assert go([WINDOWS], tmp_path, said.append, player) == first
    assert len(player.played) == 1
    assert said == ["✓ windows: 1 of 1 killed in 62 s", "✓ windows: 1 of 1 killed in 62 s (kept from before)"]
    go([WINDOWS.model_copy(update={"sources": ("state.py",)})], tmp_path, said.append, player)
    assert len(player.played) == 2, "another module of that name"


ENDS: dict[str, Any] = {"a": "killed", "b": "survived", "c": "survived", "d": "untested", "e": "untested"}
FIRST, ADDED = "tests/unit/library/test_windows.py", "tests/unit/library/test_mistakes.py"


def ended(**ends: Any) -> tuple[Mutant, ...]:
    return tuple(mutant(name, end) for name, end in {**ENDS, **ends}.items())


def test_what_is_killed_stays_killed_where_only_tests_are_added(tmp_path: Path) -> None:
    """What the added ones do not call has the end that it had."""
    player = Player(*ended(), again=ended(a="untested", b="killed", c="untested", d="survived"))
    said: list[object] = []
    before = WINDOWS.model_copy(update={"tests": (FIRST,)})
    more = WINDOWS.model_copy(update={"tests": (ADDED, FIRST)})
    go([before], tmp_path, said.append, player)
    (found,) = go([more], tmp_path, said.append, player)
    assert player.played == [((FIRST,), []), ((ADDED,), ["a"])]
    assert found.mutants == ended(b="killed", d="survived")
    assert (found.digest, found.tests, found.seconds) == (digest(more), more.tests, 123.0)
    assert said[-1] == "✓ windows: 2 of 5 killed in 123 s (survivors played again)"
    assert go([more], tmp_path, said.append, player) == [found]
    assert len(player.played) == 2


@pytest.mark.parametrize("change", ["removed", "another", "changed"])
def test_all_are_played_anew_where_a_file_of_before_is_not_what_it_was(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = Player(*ended())
    before = WINDOWS.model_copy(update={"tests": (FIRST,) if change != "removed" else (FIRST, ADDED)})
    go([before], tmp_path, print, player)
    after = WINDOWS.model_copy(update={"tests": {"removed": (FIRST,), "another": (ADDED,)}.get(change, (FIRST, ADDED))})
    if change == "changed":
        meant = state._meant
        monkeypatch.setattr(state, "_meant", lambda path: b"" if path == CHECKOUT / FIRST else meant(path))
    go([after], tmp_path, print, player)
    assert player.played == [(before.tests, []), (after.tests, [])]


@pytest.mark.parametrize(("ends", "code"), [(["killed"] * 10, 0), (["killed"] * 8 + ["survived"], 1)])
def test_the_exit_code_tells_whether_enough_are_killed(
    ends: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    player = Player(*(mutant("c", end) for end in ends))
    assert run.main(["--only", "windows", "--out", str(tmp_path / "out")], player) == code
    told = capsys.readouterr()
    assert ("✗ windows: 88.8 % killed, 90% demanded" in told.err) == bool(code)
    kept = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert [(module["module"], module["survived"]) for module in kept["modules"]] == [("windows", code)]
    assert (tmp_path / "out" / "scores.md").read_text() == told.out


def test_an_unknown_module_is_refused_before_any_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    player = Player()
    assert run.main(["--only", "windows", "--only", "gates", "--out", str(tmp_path / "out")], player) == 2
    assert player.played == []
    assert capsys.readouterr().err.startswith("✗ there is no module gates; modules are ")
    assert not (tmp_path / "out").exists()


def test_how_far_mutmut_is_stands_in_what_it_writes(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert progress(log).startswith("making mutants")
    log.write_text("done\n\r⠸ 9/17  🎉 9 🫥 0  ⏰ 0  🤔 0  🙁 0  🔇 0\r⠼ 12/17  🎉 9 🫥 0  ⏰ 1  🤔 0  🙁 2  🔇 0")
    assert progress(log) == "12 of 17 mutants, 2 survived"
