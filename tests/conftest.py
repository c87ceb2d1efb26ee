"""Lanes of `make test`: each folder that starts servers stays in one; everything else goes file by file.

And which cases of a test that is `thinned` are deep.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SERVERS = ("tests/spark/", "tests/stack/")


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Two Sparks at once would wait for each other's processors until their time-outs; brokers are lighter."""

    def _split_scope(self, nodeid: str) -> str:
        folders = (folder for folder in SERVERS if nodeid.startswith(folder))
        return next(folders, nodeid.split("::", 1)[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    """Lanes instead of marks: groups of pytest-xdist 3.8 are not seen by pytest 9.2, whose ids do not change."""
    return Lanes(config, log)


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
