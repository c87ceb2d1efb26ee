"""Modules of these tests that are run as programs, to be held and killed on their way."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infra.embedded.process import Child
from infra.toolchain.prepare import CHECKOUT
from tests.spark.held import Held


def start_module(name: str, *words: str, log: Path, held: Held) -> Child:
    """Start the module of that name with these arguments."""
    path = os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "pipelines" / "src")])
    argv = [sys.executable, "-m", f"tests.stack.{name}", *words]
    return Child(name, argv, log, cwd=CHECKOUT, env={**held.env, "PYTHONPATH": path})
