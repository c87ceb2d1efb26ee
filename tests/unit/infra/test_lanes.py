"""`make test` runs tests of servers one after the other, and all else, file by file, beside them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from infra.toolchain.prepare import CHECKOUT

FILES = ("stack/test_a.py", "stack/test_b.py", "spark/test_c.py", "spark/test_d.py", "unit/test_e.py")
TESTS = "def test_1(): pass\ndef test_2(): pass\n"


def test_one_worker_has_all_servers_and_files_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    for name in FILES:
        file = tmp_path / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TESTS)
    (tmp_path / "tests" / "conftest.py").write_text((CHECKOUT / "tests" / "conftest.py").read_text())
    words = [sys.executable, "-m", "pytest", "-p", "xdist", "-v", "-n", "2"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True, text=True, check=True)
    found = re.findall(r"\[(gw\d)\].* PASSED tests/(\S+)::", done.stdout)
    assert len(found) == 2 * len(FILES), done.stdout
    workers = {name: {worker for worker, file in found if file == name} for name in FILES}
    assert all(len(used) == 1 for used in workers.values()), workers
    assert workers["stack/test_a.py"] == workers["stack/test_b.py"]
    assert len({*map(str, workers.values())}) == 2, "the other files went where there was room"
