"""A tree of copies in which mutmut can do as it likes: sources, tests, and settings that name one module."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

from infra.toolchain.prepare import CHECKOUT
from tests.mutants import profile
from tests.mutants.module import Module
from tests.planted.garden import PIPELINES

LEFT_OUT = ("__pycache__", "*.pyc", "recorded", "golden", "second_judge")
"""What no unit test of the core reads."""
TIMEOUT_S, TIMEOUT_FACTOR = 10.0, 4.0
"""Added to what the tests of a mutant took without it, for to collect them takes time as well; and the whole times
this."""


def plant(module: Module, at: Path, killed: Sequence[str] = ()) -> None:
    """Write the tree of a module into an empty folder, and which of its mutants are not played."""
    ignore = shutil.ignore_patterns(*LEFT_OUT)
    shutil.copytree(PIPELINES / "src", at / "src", ignore=ignore)
    for part in ("infra", "tests"):
        shutil.copytree(CHECKOUT / part, at / part, ignore=ignore)
    (at / "pyproject.toml").write_text(settings(module))
    (at / "killed.json").write_text(json.dumps([*killed]))


def settings(module: Module) -> str:
    """Return the tree's pyproject.toml."""
    pytest = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    sections = {
        "tool.mutmut": {
            "source_paths": ["src"],
            "only_mutate": [f"src/{file}" for file in module.files()],
            "also_copy": ["infra"],
            "pytest_add_cli_args_test_selection": [*module.tests],
            "pytest_add_cli_args": [
                "-m",
                "not slow",
                "-p",
                "no:cacheprovider",
                "-p",
                profile.__name__,
                f"--hypothesis-profile={profile.PROFILE}",
            ],
            "timeout_constant": TIMEOUT_S,
            "timeout_multiplier": TIMEOUT_FACTOR,
            "use_git_change_detection": False,
            "use_setproctitle": False,
        },
        "tool.pytest.ini_options": {name: pytest[name] for name in ("addopts", "markers", "filterwarnings")},
    }
    # What JSON writes for lists, texts, numbers and truth is TOML as well.
    lines = [
        line
        for name, entries in sections.items()
        for line in (f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entries.items()))
    ]
    return "\n".join(lines) + "\n"
