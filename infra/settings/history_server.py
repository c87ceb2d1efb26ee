"""Spark's history server."""

from __future__ import annotations

from infra.settings.resources import Resources
from infra.settings.section import Section


class HistoryServer(Section):
    """Spark's UI of drivers that have ended; without it pipelines keep no event log."""

    enabled: bool = True
    resources: Resources | None = None
