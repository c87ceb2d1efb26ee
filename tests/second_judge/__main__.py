"""Asks the second judge alone: `python -m tests.second_judge RUN`."""

from __future__ import annotations

import subprocess
import sys

from tests.second_judge.program import build_program

raise SystemExit(subprocess.run([build_program(), *sys.argv[1:]], check=False).returncode)
