"""Lanes of `make test`: all that starts servers in one, file by file everything else in the other."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SERVERS = ("tests/spark/", "tests/stack/")


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Two Sparks or brokers at once would wait for each other's processors until their time-outs."""

    def _split_scope(self, nodeid: str) -> str:
        return "servers" if nodeid.startswith(SERVERS) else nodeid.split("::", 1)[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    """Lanes instead of marks: groups of pytest-xdist 3.8 are not seen by pytest 9.2, whose ids do not change."""
    return Lanes(config, log)
