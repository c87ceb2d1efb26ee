"""The pages of recorded runs are, byte for byte, the golden ones, in which one line stands for the style sheet.

After a wanted change look at the new page in a browser, then regenerate the golden files:
`REGENERATE_GOLDEN=1 pytest tests/unit/report/test_golden.py`
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.report import campaign, index, render, write
from tests.unit.report.golden_page import STYLE, folded

HERE = Path(__file__).parent
RUNS = ("small", "every_role")


@pytest.mark.parametrize("name", RUNS)
def test_page_of_a_recorded_run_equals_the_golden_file(name: str) -> None:
    _equals_golden(f"{name}.html", render(HERE / "fixtures" / name))


def test_index_of_the_recorded_runs_equals_the_golden_file() -> None:
    _equals_golden("index.html", index.render(HERE / "fixtures"))


def test_campaign_of_the_recorded_runs_equals_the_golden_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "fixtures")
    summed = campaign.sum_up([Path(name) for name in RUNS])
    _equals_golden("campaign.html", campaign.render(summed, Path()))


def _equals_golden(name: str, drawn: str) -> None:
    golden = HERE / "golden" / name
    assert drawn.count(STYLE) == 1
    if os.environ.get("REGENERATE_GOLDEN"):
        golden.write_text(folded(drawn), encoding="utf-8")
        pytest.skip(f"regenerated {name}: look at it, then commit it")
    assert folded(drawn) == golden.read_text(encoding="utf-8")


def test_same_directory_elsewhere_gives_the_same_page(recorded: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(recorded, tmp_path / "under-another-name")
    assert render(copy) == render(recorded)


def test_page_does_not_depend_on_hash_seed_time_zone_or_language(recorded: Path) -> None:
    script = "import sys; from pathlib import Path; from tests.harness.report import render\n"
    script += "sys.stdout.buffer.write(render(Path(sys.argv[1])).encode())"
    changed = {"PYTHONHASHSEED": "1234", "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run(
        [sys.executable, "-c", script, str(recorded)], env={**os.environ, **changed}, capture_output=True, check=True
    )
    assert other.stdout.decode() == render(recorded)


def test_write_puts_the_page_beside_the_results_and_drawing_again_changes_nothing(run: Path) -> None:
    written = write(run)
    assert written == run / "report.html"
    first = written.read_bytes()
    assert write(run).read_bytes() == first == render(run).encode()


def test_a_directory_that_does_not_exist_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"run directory .*nowhere does not exist"):
        render(tmp_path / "nowhere")
