"""What a pod runs of the harness imports nothing but what is put into the pod beside the library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.experiments.card_ledger import pod_payments
from tests.experiments.optimisations import play
from tests.experiments.optimisations.plan import ACTORS
from tests.experiments.reconcile import streams

CHECKOUT = Path(__file__).parents[2]
CASES = {
    "card_ledger": (pod_payments.FILES, [pod_payments.MODULE]),
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
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "pipelines" / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
