"""A job with windows of several lengths, and such as overlap: for tests alone."""

from __future__ import annotations

from dataclasses import replace

from effectively_once import ToFiles, ToKafka, Windowed
from tests.spark.trials import LENGTH_MS, PIPELINE, VALUES

pipeline = replace(
    PIPELINE,
    windows=(
        Windowed("user", VALUES, ToKafka("short", key="user"), totals=ToFiles("totals")),
        Windowed("user", VALUES, ToKafka("long", key="user"), length_ms=5 * LENGTH_MS),
        Windowed("user", VALUES, ToKafka("sliding"), ToFiles("over_all"), length_ms=4 * LENGTH_MS, slide_ms=LENGTH_MS),
        Windowed("user", VALUES, ToFiles("half"), length_ms=4 * LENGTH_MS, slide_ms=2 * LENGTH_MS),
    ),
)
