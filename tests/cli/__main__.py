"""`python -m tests.cli`: what `make` calls."""

from __future__ import annotations

import sys

from infra.command_line import main
from tests.cli import demo, develop, prove  # noqa: F401 - they register their commands
from tests.cli.app import app

if __name__ == "__main__":
    sys.exit(main(app))
