"""Exactly-once streaming on Spark: a chain of epochs on an object store, a dedup catalog and sinks that publish once.

What a job author and a reader of outputs need is here. The protocol is told in docs/explanation/protocol.md; rule
numbers (R1 to R12) in docstrings refer to it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effectively_once.errors import PipelineError
    from effectively_once.pipeline.explode import Explode
    from effectively_once.pipeline.json import ambiguous_json, json_records, whole_number
    from effectively_once.pipeline.pipeline import Pipeline
    from effectively_once.pipeline.recorded_step import RecordedStep
    from effectively_once.pipeline.sinks import ToFiles, ToIceberg, ToKafka, ToTable
    from effectively_once.pipeline.stateful import Stateful
    from effectively_once.pipeline.windows import Windowed
    from effectively_once.sinks.lake_catalog import read_lake_table
    from effectively_once.sinks.reader import published
    from effectively_once.state.aggregates import (
        Average,
        Collect,
        Count,
        CountDistinct,
        First,
        Last,
        Max,
        Min,
        OwnAggregate,
        Sum,
    )
    from effectively_once.store.object_store import BucketAddress
    from effectively_once.testing import KafkaRecord, Outputs, Trial, trial_session

__all__ = [
    "Average",
    "BucketAddress",
    "Collect",
    "Count",
    "CountDistinct",
    "Explode",
    "First",
    "KafkaRecord",
    "Last",
    "Max",
    "Min",
    "Outputs",
    "OwnAggregate",
    "Pipeline",
    "PipelineError",
    "RecordedStep",
    "Stateful",
    "Sum",
    "ToFiles",
    "ToIceberg",
    "ToKafka",
    "ToTable",
    "Trial",
    "Windowed",
    "ambiguous_json",
    "json_records",
    "published",
    "read_lake_table",
    "trial_session",
    "whole_number",
]

_MODULES = {
    "errors": ("PipelineError",),
    "pipeline.explode": ("Explode",),
    "pipeline.json": ("ambiguous_json", "json_records", "whole_number"),
    "pipeline.pipeline": ("Pipeline",),
    "pipeline.recorded_step": ("RecordedStep",),
    "pipeline.sinks": ("ToFiles", "ToIceberg", "ToKafka", "ToTable"),
    "pipeline.stateful": ("Stateful",),
    "pipeline.windows": ("Windowed",),
    "sinks.lake_catalog": ("read_lake_table",),
    "sinks.reader": ("published",),
    "state.aggregates": (
        "Average",
        "Collect",
        "Count",
        "CountDistinct",
        "First",
        "Last",
        "Max",
        "Min",
        "OwnAggregate",
        "Sum",
    ),
    "store.object_store": ("BucketAddress",),
    "testing": ("KafkaRecord", "Outputs", "Trial", "trial_session"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is asked for: a gateway needs no Arrow, a command needs no Spark."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"effectively_once.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
