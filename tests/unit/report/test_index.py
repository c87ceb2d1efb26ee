"""The index has a line per run, the newest first, and says of what it cannot read that it cannot."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.cli.report import main
from tests.harness.report import index, write
from tests.unit.report.conftest import change
from tests.unit.report.parsed_page import Element, parse


@pytest.fixture
def runs(parts: list[Path]) -> Path:
    """Return a directory with two readable runs, and what else lies about there."""
    folder = parts[0].parent
    for run, started in zip(parts, (1_795_194_180_000, 1_795_251_600_000), strict=True):
        change(run, "manifest.json", started_at=started)
    (folder / "bench").mkdir()
    (folder / ".verdict-1").write_text("0")
    (folder / "latest").symlink_to("20261121-090000-8", target_is_directory=True)
    return folder


def drawn(runs: Path) -> Element:
    return parse(index.render(runs))


def names(runs: Path) -> list[str]:
    return [row[0].split(" ")[0][:17] for row in drawn(runs).rows()]


def test_the_newest_run_is_first_and_links_of_runs_are_none(runs: Path) -> None:
    assert names(runs) == ["20261121-090000-8", "20261120-170300-7"]


def test_a_sink_that_is_not_exact_is_not_counted(runs: Path) -> None:
    run = runs / "20261121-090000-8"
    outputs = orjson.loads((run / "results.json").read_bytes())["outputs"]
    outputs["accepted"]["missing"] = 1
    change(run, "results.json", outputs=outputs, verdict="fail")
    assert drawn(runs).rows()[0][7] == "3 of 4"


def test_a_line_leads_to_the_page_and_without_one_to_the_results(runs: Path) -> None:
    write(runs / "20261121-090000-8")
    links = [link.attributes["href"] for link in drawn(runs).all("a")]
    assert links == ["20261121-090000-8/report.html", "20261120-170300-7/results.json"]
    assert all((runs / link).is_file() for link in links)


@pytest.mark.parametrize("junk", [None, b"", b"[]", b'{"verdict": "pa', b'{"verdict": "great"}'])
def test_a_run_that_cannot_be_read_is_listed_and_unknown(runs: Path, junk: bytes | None) -> None:
    path = runs / "20261121-090000-8" / "results.json"
    path.unlink()
    if junk is not None:
        path.write_bytes(junk)
    row = drawn(runs).rows()[0]
    assert row[1] == "? unknown"
    assert "Cannot be read: results.json" in row[2]


def test_an_empty_run_directory_is_listed_at_its_time(runs: Path) -> None:
    (runs / "20261120-180000-9").mkdir()
    assert names(runs)[1] == "20261120-180000-9"


def test_hostile_names_stay_text(runs: Path) -> None:
    change(runs / "20261121-090000-8", "results.json", claim="<script>alert(1)</script>")
    (runs / "20261121-090000-8").rename(runs / '20261121-090000-8"><script>')
    text = index.render(runs)
    assert "<script" not in text
    parse(text)


def test_writing_it_again_changes_nothing_and_leaves_nothing_behind(runs: Path) -> None:
    before = {path.name for path in runs.iterdir()}
    assert main(["index", str(runs)]) == 0
    first = (runs / "index.html").read_bytes()
    assert main(["index", str(runs)]) == 0
    assert (runs / "index.html").read_bytes() == first
    assert {path.name for path in runs.iterdir()} - before == {"index.html"}


def test_of_no_runs_there_is_an_index_too(tmp_path: Path) -> None:
    assert "There is no run here yet." in index.render(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        index.render(tmp_path / "nowhere")
    assert main(["index", str(tmp_path / "nowhere")]) == 2


def test_kept_evidence_is_listed_with_what_folders_of_runs_hold(runs: Path) -> None:
    kept = runs / "compare" / "cluster"
    kept.mkdir(parents=True)
    git = {"commit": "94f5e5ba3a5f42335a9ebf0bae750a50f4d1c7a7", "dirty": True}
    (kept / "manifest.json").write_bytes(orjson.dumps({"command": "make compare SEED=7", "git": git}))
    (kept / "results.json").write_bytes(orjson.dumps({"verdict": "pass"}))
    (kept / "table.md").write_text("| |\n")
    assert "compare/cluster" not in index.render(runs)
    page = parse(index.render(runs, kept=True))
    row = next(row for row in page.rows() if row[0].startswith("compare/cluster"))
    assert row[0].endswith("commit 94f5e5ba3a5f with changes")
    assert row[1:3] == ["\N{CHECK MARK} pass", "make compare SEED=7"]
    assert "compare/cluster/table.md" in [link.attributes["href"] for link in page.all("a")]


def test_a_campaign_is_named_above_the_runs_with_their_commits(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = sorted(path.name for path in runs.iterdir() if (path / "manifest.json").is_file() and not path.is_symlink())
    assert main(["campaign", *(str(runs / name) for name in names), "--to", str(runs / "sum")]) == 0
    assert capsys.readouterr().out.startswith("pass: 2 runs, 6 faults hit, 0 violations")
    assert drawn(runs).one("ul", class_="campaigns").text.startswith("sum, a campaign of 2 runs, commit bfa1d1937c0f:")
    assert len(drawn(runs).rows()) == 2
    results = runs / "sum" / "results.json"
    summed = orjson.loads(results.read_bytes())
    for part in summed["parts"]:
        del part["commit"]
    results.write_bytes(orjson.dumps(summed))
    assert "a campaign of 2 runs:" in index.render(runs)
