"""`user_counts` without its counts: accepted rows go to a topic, or to a lake table; settings name which (`job`)."""

from __future__ import annotations

import sys
from dataclasses import replace

from effectively_once import ToIceberg, ToKafka
from effectively_once.driver.main import run
from effectively_once_jobs import user_counts

SINK = "accepted"
kafka = replace(user_counts.pipeline, rows=(ToKafka(SINK, key="user"),), windows=())
lake = replace(kafka, rows=(ToIceberg(SINK),))

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
