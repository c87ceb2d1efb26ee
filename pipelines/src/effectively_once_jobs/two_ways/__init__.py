"""S12: the two published ways to effectively-once, under the same chain of operators.

*Snapshots*: one query of Spark runs all operators, and all of their states go back together to the last checkpoint
(`query.py`). *Dedup*: each operator is a process of its own between two topics, delivery is at least once, and each
drops by a catalog of its own what it has seen (`stage.py`). The operator is the same code in both (`running.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effectively_once.operate.create.needs import Needs


def needs(settings: Mapping[str, Any]) -> Needs:
    """Return what a deployment makes: the topics between operators, of dedup, and the table of the output."""
    # An operator starts without what declarations import, and so sooner.
    from effectively_once.operate.create.needs import Needs  # noqa: PLC0415
    from effectively_once_jobs.two_ways.settings import WaySettings  # noqa: PLC0415
    from effectively_once_jobs.two_ways.table import schema_of  # noqa: PLC0415

    read = WaySettings.model_validate(settings)
    return Needs(tuple(read.between), schema=schema_of(read.pipeline))
