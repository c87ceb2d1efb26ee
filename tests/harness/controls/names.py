"""The negative controls: what each sends, suffers and must show; how each publishes is in `job.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shows = Literal["duplicated", "missing", "retracted"]
"""Records that are there twice, are not there, or were seen by a reader and are not there for one that comes late."""


@dataclass(frozen=True, slots=True)
class NegativeControl:
    """One guard is taken away; an oracle has to find what that guard prevents.

    Attributes:
        name: of its queries in `job.py`, its topics and its run directory.
        shows: the offence that has to be found.
        killed: whether executors are killed while its records become visible; else it fails by itself.
        records: sent in a round. What a kill has to hit takes some seconds.
        copies: share of them that are byte copies of others.
        drivers: of one pipeline, at the same time. Several have names.
        marks: whether it publishes with progress marks, so that their topics are needed.
    """

    name: str
    shows: Shows
    killed: bool = False
    records: int = 12_000
    copies: float = 0.0
    drivers: tuple[str, ...] = ("",)
    marks: bool = True


SPARK_KAFKA_SINK = NegativeControl("spark_kafka_sink", "duplicated", killed=True, records=60_000, marks=False)
APPEND_WITHOUT_MARK = NegativeControl("append_without_mark", "duplicated", killed=True, records=60_000, marks=False)
TWO_DRIVERS = NegativeControl("two_drivers", "duplicated", drivers=("first", "second"))
CATALOG_OFF = NegativeControl("catalog_off", "duplicated", copies=0.05)
UNCOMMITTED_READER = NegativeControl("uncommitted_reader", "retracted", killed=True)
MARK_FIRST = NegativeControl("mark_first", "missing", killed=True)
BLOOM_ALONE = NegativeControl("bloom_alone", "missing", copies=0.05)

QUICK = (SPARK_KAFKA_SINK, APPEND_WITHOUT_MARK)
"""Those of every run that has controls: a demo has no time for more."""
EVERY = (*QUICK, TWO_DRIVERS, CATALOG_OFF, UNCOMMITTED_READER, MARK_FIRST, BLOOM_ALONE)
"""Those of a campaign, in the order in which they are played."""
