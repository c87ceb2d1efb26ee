"""What drivers run of the harness imports nothing but what is put into their pods beside the library.

The card ledger's payment service is started from its files in `tests/unit/experiments/card_ledger/test_pod_payments`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.experiments.optimisations import play
from tests.experiments.optimisations.plan import ACTORS
from tests.experiments.reconcile import streams

CHECKOUT = Path(__file__).parents[2]
CASES = {
    "reconcile": (streams.FILES[streams.PLAIN], [streams.PLAIN]),
    "optimisations": (play.FILES, [one.module for one in ACTORS if one.module.startswith("tests.")]),
}


@pytest.mark.parametrize("files, modules", CASES.values(), ids=CASES)
def test_what_a_pod_runs_finds_all_that_it_imports(files: Sequence[str], modules: list[str], tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", "".join(f"import {name}\n" for name in modules)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{CHECKOUT / 'pipelines' / 'src'}", "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
