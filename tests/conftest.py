"""Lanes of `make test`: the folder whose tests share servers stays in one; everything else goes file by file.

And which cases of a test that is `thinned` are deep.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SERVERS = "tests/stack/"


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Tests of Spark wait for half of their time, so two at once fill two processors; a third would starve them."""

    def _split_scope(self, nodeid: str) -> str:
        return SERVERS if nodeid.startswith(SERVERS) else nodeid.split("::", 1)[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    """Lanes instead of marks: groups of pytest-xdist 3.8 are not seen by pytest 9.2, whose ids do not change."""
    return Lanes(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, nor later among these: 12,000 come, and none goes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the first of every so many cases as it is, and mark the others `deep`, before `-m` is looked at."""
    seen = Counter[str]()
    for item in items:
        if (thinned := item.get_closest_marker("thinned")) is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % thinned.args[0]:
                item.add_marker(pytest.mark.deep)
            seen[test] += 1
