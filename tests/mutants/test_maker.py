"""Mutants are made, spared and played for real, on little code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.mutants.module import Module
from tests.mutants.trial import play

SOURCE = """
class Door:
    def enter(self, name: str, age: int) -> str:
        if age < 18:
            raise TooYoungError(f"{name} is {age + 1}", "the door")
        return "in"

def leave() -> int:
    return 1
"""
MAKES = """
from pathlib import Path
from tests.mutants import maker
maker.install()
maker._writing("src/door.py", Path("src/door.py").read_text())
"""


CALLED_AT_IMPORT = """
def _table() -> list[int]:
    return [1, 2]

TABLE = _table()

def least() -> int:
    return TABLE[0]
"""
OF_LEAST = """
from little import least

def test_least() -> None:
    assert least() == 1
"""


def made(at: Path, source: str) -> dict[str, Any]:
    """Return what the maker writes down of a file."""
    (at / "src").mkdir()
    (at / "src" / "door.py").write_text(source)
    subprocess.run([sys.executable, "-c", MAKES], cwd=at, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=True)
    told: dict[str, Any] = json.loads((at / "made" / "src" / "door.py.json").read_text())
    return told


def test_a_mutant_is_told_by_its_function_and_lines(tmp_path: Path) -> None:
    mutants = made(tmp_path, SOURCE)["mutants"]
    assert {mutant["function"] for mutant in mutants} == {"Door.enter", "leave"}
    (number,) = (mutant for mutant in mutants if mutant["function"] == "leave")
    assert (number["old"], number["new"], number["name"]) == ("return 1", "return 2", "x_leave__mutmut_1")
    assert number["diff"] == " def leave() -> int:\n-    return 1\n+    return 2"


def test_the_wording_of_an_error_is_spared_and_counted(tmp_path: Path) -> None:
    """An error with an argument less cannot be raised at all: this mutant tells whether a test gets there."""
    told = made(tmp_path, SOURCE)
    of_error = [mutant["new"] for mutant in told["mutants"] if "raise" in mutant["old"]]
    assert of_error == ['raise TooYoungError("the door")', 'raise TooYoungError(f"{name} is {age + 1}", )']
    # Two arguments made None, a sign and a number in the first sentence, two other spellings of the second.
    assert told["spared"] == 6
    everything = [mutant["new"] for mutant in told["mutants"]]
    assert "if age <= 18:" in everything
    assert 'return "XXinXX"' in everything, "a text that is no error's"


@pytest.mark.deep
def test_mutants_of_the_windows_are_played_and_killed() -> None:
    """Two files of the product, one of which declares only; nothing is left of the tree."""
    module = Module(
        name="little",
        sources=("state/lateness.py", "pipeline/windows.py"),
        tests=("tests/unit/library/test_windows.py",),
    )
    told: list[object] = []
    outcome = play(module, told.append)
    assert len(outcome.mutants) > 10
    assert {mutant.end for mutant in outcome.mutants} <= {"killed", "survived", "untested"}
    assert any(mutant.killed and mutant.function == "state.lateness.Windows.closed" for mutant in outcome.mutants)


def played(tmp_path: Path, *killed: str) -> dict[str, bool]:
    """Play the mutants of a little program but for some; return whether each survived, by its line."""
    for part in ("__init__.py", "maker.py", "stage.py", "profile.py"):
        (tmp_path / "tests" / "mutants").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / "mutants" / part).write_bytes((Path(__file__).parent / part).read_bytes())
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "test_little.py").write_text(OF_LEAST)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "little.py").write_text(CALLED_AT_IMPORT)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.mutmut]\nsource_paths = ["src"]\npytest_add_cli_args_test_selection = ["tests/test_little.py"]\n'
        "use_setproctitle = false\nuse_git_change_detection = false\n"
    )
    (tmp_path / "killed.json").write_text(json.dumps(killed))
    env = {**os.environ, "PYTHONPATH": ""}
    argv = [sys.executable, "-m", "tests.mutants.stage", "run", "--max-children", "1"]
    subprocess.run(argv, cwd=tmp_path, env=env, check=True, stdout=subprocess.DEVNULL)
    ends = json.loads((tmp_path / "mutants" / "src" / "little.py.meta").read_text())["exit_code_by_key"]
    changes = json.loads((tmp_path / "made" / "src" / "little.py.json").read_text())["mutants"]
    return {change["new"]: ends[f"little.{change['name']}"] == 0 for change in changes}


ENDS = {"return [2, 2]": False, "return [1, 3]": True, "return TABLE[1]": False}


def test_a_mutant_of_what_is_called_at_import_is_imported_anew(tmp_path: Path) -> None:
    """The table of the correct product would else be what every mutant is asked for."""
    assert played(tmp_path) == ENDS


@pytest.mark.deep
def test_a_mutant_that_other_tests_have_killed_is_not_played(tmp_path: Path) -> None:
    assert played(tmp_path, "little.x__table__mutmut_2") == {**ENDS, "return [1, 3]": False}
