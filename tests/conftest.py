"""Lanes of `make test`: all that starts servers in one, file by file everything else in the other."""

from __future__ import annotations

import pytest

SERVERS = ("stack", "spark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two Sparks or brokers at once would wait for each other's processors until their time-outs."""
    for item in items:
        servers = any(item.get_closest_marker(name) for name in SERVERS)
        item.add_marker(pytest.mark.xdist_group("servers" if servers else str(item.path)))
