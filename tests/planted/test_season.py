"""Bugs are planted for real and caught; one that changes nothing is not, and says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.planted import state, suite
from tests.planted.embedded import judged
from tests.planted.garden import Bug, Edit, GardenError
from tests.planted.limits import Ended
from tests.planted.matrix import markdown
from tests.planted.run import main
from tests.planted.season import SEEDS, Season, by_area
from tests.planted.sighting import Sighting

AT_THE_BOUNDS = "tests/unit/library/test_windows.py::test_the_bounds_of_a_window_are_as_the_reference_has_them"
GARDEN = f"""
[[bug]]
name = "closed-late"
breaks = "R6: window end + allowed lateness <= watermark"
file = "state/lateness.py"
old = "<= watermark_ms"
new = "< watermark_ms"
tests = ["{AT_THE_BOUNDS}"]

[[bug]]
name = "harmless"
breaks = "nothing: a comparison turned round"
file = "state/lateness.py"
old = "watermark_ms is not None and self"
new = "None is not watermark_ms and self"
tests = ["{AT_THE_BOUNDS}"]
"""


def bug(name: str = "one", **changes: Any) -> Bug:
    edits = (Edit(file="state/lateness.py", old="<= watermark_ms", new="< watermark_ms"),)
    return Bug(**{"name": name, "area": "area", "breaks": "R6", "edits": edits, "tests": (AT_THE_BOUNDS,), **changes})


class Suite:
    """Plays a suite by what the copy holds: the bug is seen by these seeds."""

    def __init__(self, seen_by: Sequence[int] = SEEDS, *, draws: bool = True, correct: bool = True) -> None:
        self.seen_by, self.draws, self.correct, self.played = seen_by, draws, correct, list[tuple[bool, int]]()

    def __call__(self, sources: Path, _: Sequence[str], seed: int, scratch: Path) -> Sighting:
        assert scratch.is_dir()
        planted = "< watermark_ms" in (sources / "effectively_once" / "state/lateness.py").read_text()
        self.played.append((planted, seed))
        caught = seed in self.seen_by if planted else not self.correct
        return Sighting(seed=seed, how="caught" if caught else "passed", by="a test", draws=self.draws)


def season(at: Path, played: Suite) -> Season:
    return Season(at, lambda _: None, suite=played)


@pytest.mark.deep
def test_a_bug_is_caught_and_one_that_changes_nothing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "area.toml").write_text(GARDEN)
    words = ["--garden", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main(words) == 1
    told = capsys.readouterr()
    assert "| area.harmless | nothing: a comparison turned round | **not caught** (passed: 1 tests) |" in told.out
    assert f"| area.closed-late | R6: window end + allowed lateness <= watermark | {AT_THE_BOUNDS} |" in told.out
    assert "✗ not caught: area.harmless" in told.err
    kept = json.loads((tmp_path / "out" / "matrix.json").read_text())
    assert (kept["caught"], kept["planted"]) == (1, 2)
    line = kept["bugs"][0]["sightings"][0]["line"]
    assert line.startswith("tests/unit/library/test_windows.py:"), "no folder of this machine"
    assert "assert" in line
    assert main([*words, "--only", "area.closed-late"]) == 0, "kept"
    assert (tmp_path / "out" / "matrix.md").read_text().startswith("# Planted bugs")


@pytest.mark.parametrize("words", [["--only", "katalog"], ["--garden", "nowhere"]])
def test_bad_input_is_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("✗ there ")


def test_where_a_seed_may_decide_all_three_have_to_catch_it(tmp_path: Path) -> None:
    (found,) = season(tmp_path / "a", all_three := Suite()).go([bug()])
    assert found.caught
    assert [seed for planted, seed in all_three.played if planted] == [1, 2, 3]
    (found,) = season(tmp_path / "b", Suite((1, 2))).go([bug()])
    assert not found.caught
    (found,) = season(tmp_path / "c", once := Suite(draws=False)).go([bug()])
    assert found.caught
    assert once.played == [(False, 1), (True, 1)], "the correct product first"


def test_a_product_that_does_not_pass_without_a_bug_stops_everything(tmp_path: Path) -> None:
    played = Suite(correct=False)
    with pytest.raises(GardenError, match=r"the correct product is refuted \(seed 1\): caught a test"):
        season(tmp_path, played).go([bug()])
    assert played.played == [(False, 1)]


def test_what_was_played_is_not_played_again_unless_something_changed(tmp_path: Path) -> None:
    season(tmp_path, Suite()).go([bug()])
    season(tmp_path, again := Suite()).go([bug()])
    assert again.played == []
    season(tmp_path, changed := Suite(draws=False)).go([bug(breaks="another sentence")])
    assert changed.played == [(True, 1)]


def test_of_the_correct_product_files_are_played_whole_where_one_bug_asks_for_all_of_one() -> None:
    bugs = [bug(tests=("a.py::x", "b.py")), bug(tests=("a.py::y",)), bug(tests=("b.py::z",)), bug(area="other")]
    of_embedded = bug(run="embedded", tests=())
    assert by_area([*bugs, of_embedded]) == [
        ("unit", ("a.py::x", "a.py::y", "b.py")),
        ("unit", (AT_THE_BOUNDS,)),
        ("embedded", ()),
    ]


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("a.py:1: MemoryError", "memory"),
        ("a.py:1: pyarrow.lib.ArrowMemoryError: malloc of size 64", "memory"),
        ("a.py:1: Failed: DID NOT RAISE any of (OSError, MemoryError)", "caught"),
        ("a.py:1: assert 1 == 2", "caught"),
        (None, "passed"),
    ],
)
def test_memory_that_ran_out_inside_of_a_test_shows_nothing(line: str | None, how: str, tmp_path: Path) -> None:
    failed = line and {"test": "t", "line": line, "draws": False}
    told = {"product": str(tmp_path / "effectively_once"), "tests": 3, "draws": False, "failed": failed}
    (tmp_path / suite.TOLD).write_text(json.dumps(told))
    ended = Ended("exit", int(bool(line)), 1.0)
    assert suite._sighting(1, ended, tmp_path, tmp_path, tmp_path).how == how


def test_a_suite_of_another_product_or_without_a_test_is_no_sighting(tmp_path: Path) -> None:
    (tmp_path / suite.LOG).write_text("ERROR: not found\n")
    with pytest.raises(GardenError, match=r"no test ran \(pytest ended with 4\): ERROR: not found"):
        suite._sighting(1, Ended("exit", 4, 1.0), tmp_path, tmp_path, tmp_path)
    (tmp_path / suite.TOLD).write_text(
        json.dumps({"product": "/elsewhere", "tests": 1, "draws": False, "failed": None})
    )
    with pytest.raises(GardenError, match="played against /elsewhere"):
        suite._sighting(1, Ended("exit", 0, 1.0), tmp_path, tmp_path, tmp_path)


REFUTED = {"name": "multiset", "verdict": "fail", "says": "rows are missing", "evidence": ["id-7 events/0/12 epoch 3"]}


@pytest.mark.parametrize(
    ("verdict", "oracles", "how", "by"),
    [
        ("fail", [{"name": "chain", "verdict": "pass"}, REFUTED], "caught", "oracle multiset"),
        ("unknown", [{"name": "chain", "verdict": "unknown"}], "unknown", "no reader"),
        ("pass", [{"name": "chain", "verdict": "pass"}], "passed", "no reader"),
    ],
)
def test_a_campaign_catches_a_bug_only_where_an_oracle_refutes_it(
    verdict: str, oracles: list[Any], how: str, by: str, tmp_path: Path
) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"verdict": verdict, "oracles": oracles, "reasons": ["no reader"]}))
    found = judged(results, 1, 9.0)
    assert (found.how, found.by) == (how, by)
    assert found.line == ("id-7 events/0/12 epoch 3" if how == "caught" else "")
    assert judged(tmp_path / "nothing.json", 1, 9.0).how == "unknown"


def test_the_matrix_names_what_was_lost_first(tmp_path: Path) -> None:
    played = season(tmp_path, Suite((1,))).go([bug(), bug("two")])
    page = markdown([played[0].model_copy(update={"bug": "area.a|b"}), played[1]], "d" * 64)
    assert "0 of 2 planted bugs were caught." in page
    assert "area.a\\|b" in page


def test_what_was_played_stays_played_when_only_comments_and_form_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "PIPELINES", tmp_path)
    monkeypatch.setattr(state, "CHECKOUT", tmp_path)

    def digest(text: str) -> str:
        (tmp_path / "windows.py").write_text(text)
        return state.product_digest.__wrapped__()

    first = digest("x = f(1, 2)\n")
    assert digest("# why\nx = f(\n    1,\n    2,\n)\n") == first
    assert digest("x = f(1, 3)\n") != first
