"""Plugin of pytest in the process that plays a suite: which product was tested, and the first assertion that failed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings

import effectively_once

VARIABLE = "PLANTED_WITNESS"
"""Names the file that is written."""
PROFILE = "planted"
# To find a smaller example of a bug takes ten times as long as to find one.
settings.register_profile(PROFILE, deadline=None, database=None, phases=(Phase.explicit, Phase.generate))


class Witness:
    """Notes what a session saw."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {
            "product": str(Path(effectively_once.__file__).parent),
            "tests": 0,
            "draws": False,
            "failed": None,
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Note the first failure of a test."""
        report: Any = yield
        draws = _draws(item)
        self.told["draws"] = self.told["draws"] or draws
        self.told["tests"] += report.when == "call"
        if report.failed and self.told["failed"] is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            line = f"{crash.path}:{crash.lineno}: {crash.message}" if crash else str(report.longrepr)
            self.told["failed"] = {"test": report.nodeid, "line": line[:2000], "draws": draws}
        return report  # type: ignore[no-any-return]

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        Path(os.environ[VARIABLE]).write_text(json.dumps(self.told))


def _draws(item: pytest.Item) -> bool:
    """Whether what a test does may depend on a seed: it, or what it calls in its module, uses Hypothesis or draws."""
    test: Any = getattr(item, "function", None)
    known: dict[str, Any] = vars(getattr(item, "module", None) or object)  # type: ignore[assignment]
    left, seen = [test], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if hasattr(one, "hypothesis") or "hypothesis" in _home(one) or _home(one) in ("random", "secrets", "uuid"):
            return True
        if _home(one) == _home(test):
            left += [known[name] for name in _names(one) if name in known]
    return False


def _home(one: Any) -> str:
    """Name of the module that something is, or is from."""
    return one.__name__ if isinstance(one, ModuleType) else str(getattr(one, "__module__", ""))


def _names(one: Any) -> set[str]:
    """What the code of a function, or of the functions of a class, calls by name."""
    made = [vars(one).values()] if isinstance(one, type) else [[one]]
    codes = [function.__code__ for group in made for function in group if hasattr(function, "__code__")]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    return names


def pytest_configure(config: pytest.Config) -> None:
    """Take part in the session."""
    config.pluginmanager.register(Witness())
