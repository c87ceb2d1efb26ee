"""`user_counts` with its accepted rows in a table too: what a campaign runs where there is a PostgreSQL.

`python -m tests.harness.with_table SETTINGS.json`.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from effectively_once import ToTable
from effectively_once.main import run
from effectively_once_jobs import user_counts
from tests.harness.sinks import ACCEPTED_ROWS

JOB = "tests.harness.with_table"
pipeline = replace(user_counts.pipeline, rows=(*user_counts.pipeline.rows, ToTable(ACCEPTED_ROWS)))

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], pipeline))
