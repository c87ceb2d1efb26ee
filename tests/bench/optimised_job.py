"""Each variant of `optimised` in turn, round by round, in one session, over one topic or file.

`python -m tests.bench.optimised_job SETTINGS.json` ends after the last round. The first one only warms up. What it
imports beside the library has to be shipped with it to a cluster (`tests/experiments/optimisations/play.py`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from effectively_once.kafka_client import Access
from effectively_once.progress import announce
from tests.bench.optimised import VARIANTS, WINDOW, planning, totals
from tests.bench.spark_arm import plain_session

WARMING = -1
"""Number of the round before the first."""


def main(argv: list[str]) -> None:
    """Read the settings: format and options (of what is read), parts, rounds (their numbers), variants, stay or not.

    Who stays waits for its end after the last round: where a driver that ends is followed by the next one.
    """
    asked = json.loads(Path(argv[0]).read_text())
    spark = plain_session("optimisations", {})
    # Where a broker asks who it is, a pod's environment says so.
    login = Access.of(os.environ).spark() if asked["format"] == "kafka" else {}
    kafka = spark.read.format(asked["format"]).options(**login, **asked["options"]).load()
    arms, parts = asked["variants"], asked["parts"]
    for number in [WARMING, *asked["rounds"]]:
        turn = number % len(arms)
        for arm in arms[turn:] + arms[:turn]:
            load = round(os.getloadavg()[0], 2)
            spark.sparkContext.setJobGroup(group(arm, number), arm)
            began = time.monotonic()
            with planning(spark, VARIANTS[arm], parts):
                found = totals(kafka, VARIANTS[arm], parts).collect()
            took_s = time.monotonic() - began
            by_window = sorted((row[WINDOW], row["records"], row["users"], row["digest"]) for row in found)
            announce("query", arm=arm, round=number, s=round(took_s, 3), found=by_window, load_before=load)
    spark.stop()
    announce("ended")
    if asked.get("stay"):
        signal.pause()


def group(arm: str, number: int) -> str:
    """Name of a query in Spark's event log."""
    return f"{arm}/{number}"


if __name__ == "__main__":
    main(sys.argv[1:])
