"""The tests of each example pass, as its page runs them, and fail where its declaration is another."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.gallery import GALLERY, names

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1000)]

TESTS_S = 900.0
WRONG = {
    "card_features": ('First("country")', 'Last("country")'),
    "cdc": ('"tier": Last("tier")', '"tier": Max("tier")'),
    "enrichment": ('Decimal("0.01")', 'Decimal("0.1")'),
    "order_lines": ('Sum("quantity")', "Count()"),
    "orders": ('"dearest": Max("amount")', '"dearest": Sum("amount")'),
    "sensors": ('Average("celsius")', 'Max("celsius")'),
    "sessions": ("30 minutes", "40 minutes"),
    "trending": ("slide_ms=5 * MINUTE_MS", "slide_ms=10 * MINUTE_MS"),
}
"""What a declaration has, and what it would be wrong to have."""


def run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `make test AT=`."""
    argv = [sys.executable, "-m", "tests.cli", "test", "--at", str(folder), "-p", "no:cacheprovider"]
    return subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=TESTS_S, check=False)


@pytest.mark.parametrize("name", names())
def test_its_tests_pass(name: str) -> None:
    done = run_tests(GALLERY / name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^=+ [2-9] passed in ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", names())
def test_its_tests_fail_where_its_declaration_is_another(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GALLERY / name, tmp_path / name))
    path = folder / "src" / name / "__init__.py"
    right, wrong = WRONG[name]
    assert path.read_text().count(right) == 1
    path.write_text(path.read_text().replace(right, wrong))
    done = run_tests(folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^=+ \d failed, \d passed in ", done.stdout, re.MULTILINE)
