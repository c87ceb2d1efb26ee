"""These tests change a running cluster, in objects of their own: they are selected by EFFECTIVELY_ONCE_UPSTREAM=1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SELECTED = "EFFECTIVELY_ONCE_UPSTREAM"
HERE = Path(__file__).parent
LONGEST_S = 600


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out unless they are asked for; each waits for a cluster."""
    mine = [item for item in items if HERE in item.path.parents]
    if not os.environ.get(SELECTED):
        items[:] = [item for item in items if item not in mine]
        config.hook.pytest_deselected(items=mine)
        return
    for item in mine:
        item.add_marker(pytest.mark.timeout(LONGEST_S))
