"""`user_counts` with its accepted rows in a table too: what a campaign runs where there is a PostgreSQL.

`python -m tests.harness.with_table SETTINGS.json`. The file also runs alone, in a pod, where settings name it as `job`:
it imports nothing of this repository but the wheel.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from effectively_once import ToTable
from effectively_once.driver.main import run
from effectively_once_jobs import user_counts

JOB, MODULE = "tests.harness.with_table", "with_table"
"""Its name in this checkout, and where it is a file alone."""
TABLE = "accepted_rows"
"""See ACCEPTED_ROWS of `tests.harness.sinks`."""
pipeline = replace(user_counts.pipeline, rows=(*user_counts.pipeline.rows, ToTable(TABLE)))

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], pipeline))
