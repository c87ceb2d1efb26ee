"""The pipeline of `uncombined`: `python -m tests.bench.uncombined_job SETTINGS.json`."""

from __future__ import annotations

import sys

from effectively_once.driver.main import run
from tests.bench.uncombined import pipeline

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], pipeline))
