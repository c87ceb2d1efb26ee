"""`user_counts` without its topic of accepted rows: the packaged job's transform and counts, and no more."""

from __future__ import annotations

import sys
from dataclasses import replace

import pyarrow as pa

from effectively_once.driver.main import run
from effectively_once_jobs import user_counts

pipeline = replace(user_counts.pipeline, columns=pa.schema([("user", pa.string())]), rows=())

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], pipeline))
