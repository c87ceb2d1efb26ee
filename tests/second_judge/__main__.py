"""Asks the second judge alone: `python -m tests.second_judge RUN`."""

from __future__ import annotations

import subprocess
import sys

from tests.second_judge.program import built

raise SystemExit(subprocess.run([built(), *sys.argv[1:]], check=False).returncode)
