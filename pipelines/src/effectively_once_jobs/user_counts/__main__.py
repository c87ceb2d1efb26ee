"""`python -m effectively_once_jobs.user_counts SETTINGS.json`."""

from __future__ import annotations

import sys

from effectively_once.driver.main import run
from effectively_once_jobs.user_counts import pipeline

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], pipeline))
