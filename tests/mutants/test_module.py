"""The modules name files that are there, and a tree is set up from them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.mutants.explained import read_explanations
from tests.mutants.module import Module, MutantsError, pick, read_modules
from tests.mutants.tree import settings

MODULES = read_modules()


def test_the_core_is_in_modules_and_no_file_in_two() -> None:
    files = [file for module in MODULES for file in module.files()]
    assert len({*files}) == len(files)
    assert {module.name for module in MODULES} == {"ledger", "catalog", "state", "sinks", "windows", "messages"}
    assert "effectively_once/ledger/chain.py" in files


def test_tests_are_of_the_unit_suite_and_start_no_servers() -> None:
    for module in MODULES:
        for test in module.tests:
            assert test.startswith("tests/unit/"), module.name
            assert "pytest.mark.stack" not in (CHECKOUT / test).read_text(), test


def test_the_explanations_kept_here_can_be_read() -> None:
    """Whether their mutants are still made is seen when these are played."""
    assert read_explanations(module.name for module in MODULES)


def test_modules_are_picked_by_name() -> None:
    assert pick(MODULES, []) == MODULES
    assert [module.name for module in pick(MODULES, ["windows", "catalog"])] == ["catalog", "windows"]
    with pytest.raises(MutantsError, match=r"there is no module katalog; modules are ledger, catalog"):
        pick(MODULES, ["catalog", "katalog"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[a]\nsources = ["nowhere.py"]\ntests = []', "module a has no file nowhere.py"),
        (
            '[a]\nsources = ["state/lateness.py"]\ntests = ["tests/unit/test_nowhere.py"]',
            "has no tests tests/unit/test_nowhere",
        ),
        ('[a]\nsources = ["state/lateness.py"]', "tests"),
        ("[a", "cannot be read"),
        ("a = 1", "cannot be read"),
    ],
)
def test_a_module_that_names_what_is_not_there_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "modules.toml"
    path.write_text(text)
    with pytest.raises(MutantsError, match=says):
        read_modules(path)


def test_the_settings_of_a_tree_name_the_files_of_one_module() -> None:
    module = Module(name="a", sources=("state/lateness.py",), tests=("tests/unit/library/test_windows.py",))
    told = tomllib.loads(settings(module))["tool"]
    assert told["mutmut"]["only_mutate"] == ["src/effectively_once/state/lateness.py"]
    assert told["mutmut"]["pytest_add_cli_args_test_selection"] == ["tests/unit/library/test_windows.py"]
    assert "--strict-markers" in told["pytest"]["ini_options"]["addopts"]
    assert "pythonpath" not in told["pytest"]["ini_options"], "it would put other sources before the mutants"
