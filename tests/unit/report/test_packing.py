"""Evidence that is kept: complete, small, the same bytes each time, and nothing of the machine in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.cli.report import main
from tests.harness.manifest import code_of
from tests.harness.pack.archive import Pack, unpack
from tests.harness.report import write as draw
from tests.harness.report.packing import PackingError, Private
from tests.harness.report.packing import pack as pack_from
from tests.harness.report.private import private
from tests.harness.results import OWN_PIPELINE, CampaignResults
from tests.unit.harness.test_pack import contents
from tests.unit.report.conftest import NAMES, change
from tests.unit.report.parsed_page import parse

KEPT = tuple(f"{name}.tar.xz" for name in NAMES)
SENT = '{"n":0,"id":"p0-s0-000000"}\n{"end":true,"rows":1}\n'
TO = Path("docs/evidence/reference")
BOTH = {"name": "second judge", "number": 0, "verdict": "pass", "says": "it comes to the same", "evidence": []}


@pytest.fixture
def runs(parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return two runs with their pages, below the working directory."""
    monkeypatch.chdir(tmp_path)
    for run in parts:
        for control in (run / "controls").iterdir():
            for file in ("manifest.json", "history.jsonl"):
                if not (control / file).exists():
                    shutil.copy(run / file, control / file)
        for folder in (run, *(run / "controls").iterdir()):
            (folder / "sent.jsonl").write_text(SENT)
            (folder / "observed").mkdir(exist_ok=True)
        (run / "logs").mkdir()
        (run / "logs" / "driver.log").write_text("a line\n")
        oracles = orjson.loads((run / "results.json").read_bytes())["oracles"]
        change(run, "results.json", oracles=[*oracles, BOTH])
        draw(run.relative_to(tmp_path))
    return [run.relative_to(tmp_path) for run in parts]


def pack(runs: list[Path], to: Path, private: list[Private], **options: Any) -> tuple[CampaignResults, int]:
    """Pack where there is no repository, whose history would lack the commits of these runs."""
    return pack_from(runs, to, private, checkout=Path(), **options)


def test_of_each_run_all_that_the_judge_reads_and_says_is_kept_in_one_file(runs: list[Path]) -> None:
    results, size = pack(runs, TO, [])
    found = contents(TO)
    assert size == sum(map(len, found.values()))
    assert results.verdict == "pass"
    assert set(found) == {*KEPT, "results.json", "report.html"}
    for run in runs:
        unpack(TO / f"{run.name}.tar.xz", again := Path("again") / run.name)
        left = {"report.html", "driver.log"}
        assert contents(again) == {name: one for name, one in contents(run).items() if Path(name).name not in left}


def test_the_links_of_the_sum_lead_to_pages_beside_it_which_are_drawn_from_the_packs(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    pack(runs, TO, [])
    of_sum = TO / "report.html"
    page = of_sum.read_text()
    links = [link.attributes["href"] for link in parse(page).all("a")]
    assert links == [f"{name}.html" for name in NAMES]
    of_sum.unlink()
    assert main([str(TO)]) == 0
    assert capsys.readouterr().out.split() == [*(str(TO / link) for link in links), str(of_sum)]
    assert of_sum.read_text() == page
    for run, link in zip(runs, links, strict=True):
        assert (TO / link).read_bytes() == (run / "report.html").read_bytes()
    assert main([str(TO)]) == 0
    assert capsys.readouterr().out.split() == [str(of_sum)], "the page of a run is drawn once"
    (TO / links[0]).unlink()
    assert main([str(TO / KEPT[0])]) == 0
    moved = TO.rename("elsewhere")
    assert all((moved / link).is_file() for link in links)


def test_the_same_runs_give_the_same_bytes(runs: list[Path]) -> None:
    pack(runs, TO, [])
    first = contents(TO)
    shutil.rmtree(TO)
    for run in runs:
        (run / "history.jsonl").touch()
    pack(runs, TO.resolve(), [])
    assert contents(TO) == first


def test_kept_runs_are_kept_again_as_they_are_with_others(runs: list[Path]) -> None:
    pack(runs[:1], TO, [])
    pack([TO / KEPT[0], *runs[1:]], Path("docs/evidence/more"), [])
    kept = contents(TO)
    again = contents(Path("docs/evidence/more"))
    of_first = {name: content for name, content in kept.items() if name.startswith(runs[0].name)}
    assert of_first
    assert of_first.items() <= again.items()
    assert any(name.startswith(runs[1].name) for name in again)


def test_a_folder_of_a_sum_stands_for_its_runs_and_the_state_of_a_soak_is_kept(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.cli.report.CHECKOUT", Path.cwd())
    assert main(["campaign", *map(str, runs), "--to", "runs/soak/reference"]) == 0
    Path("runs/soak/reference/state.json").write_text('{"format": 1}')
    assert main(["evidence", "runs/soak/reference", "--to", str(TO)]) == 0
    assert {path.name for path in TO.iterdir()} == {*KEPT, "results.json", "report.html", "state.json"}


@pytest.mark.parametrize("verdict", ["fail", "unknown"])
def test_a_run_that_did_not_pass_is_packed_only_when_asked_for(runs: list[Path], verdict: str) -> None:
    change(runs[1], "results.json", verdict=verdict, reasons=["because"])
    with pytest.raises(PackingError, match=f"is {verdict}: --any-verdict"):
        pack(runs, TO, [])
    assert not TO.exists()
    assert pack(runs, TO, [], any_verdict=True)[0].verdict == verdict


LACKING = ("history.jsonl", "results.json", "manifest.json", "sent.jsonl", "controls/spark_kafka_sink/sent.jsonl")


@pytest.mark.parametrize("missing", LACKING)
def test_a_run_that_lacks_a_file_is_refused(runs: list[Path], missing: str) -> None:
    (runs[1] / missing).unlink()
    with pytest.raises(PackingError, match=str(runs[1])):
        pack(runs, TO, [])
    assert not TO.exists()


@pytest.mark.parametrize("any_verdict", [False, True])
@pytest.mark.parametrize("where", ["", "controls/spark_kafka_sink"])
@pytest.mark.parametrize(
    ("git", "says"),
    [
        ({"commit": "94f5e5ba", "dirty": True}, "was recorded from a tree with changes"),
        ({"commit": "94f5e5ba"}, "was recorded from a tree with changes"),
        ({}, "names no commit"),
    ],
)
def test_a_run_that_no_commit_stands_for_is_no_evidence(
    runs: list[Path], git: dict[str, Any], says: str, where: str, any_verdict: bool
) -> None:
    change(runs[1] / where, "manifest.json", git=git)
    with pytest.raises(PackingError, match=f"{runs[1] / where} {says}"):
        pack(runs, TO, [], any_verdict=any_verdict)
    assert not TO.exists()


def git(*words: str) -> str:
    names = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    return subprocess.run(["git", *names, *words], capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_of_a_run_has_to_have_the_code_that_its_drivers_ran(runs: list[Path]) -> None:
    git("init", "--quiet")
    for name in ("effectively_once/driver/driver.py", "effectively_once/store/s3.py", "effectively_once/py.typed"):
        path = Path("pipelines", "src", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}, ä\n", encoding="utf-8")
    git("add", "pipelines")
    git("commit", "--quiet", "--message", "First")
    commit = {"commit": git("rev-parse", "HEAD"), "dirty": False}
    for manifest in Path("runs").rglob("manifest.json"):
        change(manifest.parent, "manifest.json", git=commit, code=code_of(Path()) | {"job_of_a_wheel": "0"})
    pack(runs, TO, [])
    shutil.rmtree(TO)
    Path("pipelines/src/effectively_once/store/s3.py").write_text("")
    change(runs[1], "manifest.json", code=code_of(Path()))
    with pytest.raises(PackingError, match=f"{runs[1]} is of commit .*, whose effectively_once is not what its "):
        pack(runs, TO, [])


def test_the_commit_of_a_run_has_to_be_in_the_history(runs: list[Path]) -> None:
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "First")
    with pytest.raises(PackingError, match="is not in the history of HEAD"):
        pack(runs, TO, [])
    commit = git("rev-parse", "HEAD")
    git("commit", "--quiet", "--allow-empty", "--message", "Second")
    for manifest in Path("runs").rglob("manifest.json"):
        change(manifest.parent, "manifest.json", git={"commit": commit, "dirty": False})
    pack(runs, TO, [])
    index = orjson.loads(Pack.of(TO / KEPT[0]).members["pack.json"])
    assert index["packed_by"] == git("rev-parse", "HEAD")


def test_a_run_that_one_judge_alone_has_seen_is_refused_but_of_ones_own_pipeline(runs: list[Path]) -> None:
    for run in runs:
        change(run, "results.json", oracles=[])
    with pytest.raises(PackingError, match="was judged by one judge alone: `make check RUN="):
        pack(runs, TO, [])
    for run in runs:
        settings = orjson.loads((run / "manifest.json").read_bytes())["settings"]
        change(run, "manifest.json", settings=settings | {"campaign": OWN_PIPELINE})
    pack(runs, TO, [])


def test_more_than_the_limit_is_refused_and_nothing_is_written(runs: list[Path]) -> None:
    size = pack(runs, TO, [])[1]
    shutil.rmtree(TO)
    sums = 2_000  # the sum's own files push it beyond the limit, when the runs are within
    for limit in (1_000, size - sums):
        with pytest.raises(PackingError, match=f"bytes in all, of {limit:,} at most; the largest is "):
            pack(runs, TO, [], limit=limit)
        assert not TO.exists()
    pack(runs, TO, [], limit=size)


@pytest.mark.parametrize("file", ["manifest.json", "results.json", "history.jsonl", "sent.jsonl"])
@pytest.mark.parametrize(
    "one", [Private("the home directory", "/home/somebody"), Private("a name", "box-7", word=True)]
)
@pytest.mark.thinned(3)
def test_what_tells_of_the_machine_is_refused_and_shown(runs: list[Path], file: str, one: Private) -> None:
    path = runs[1] / file
    path.write_bytes(path.read_bytes().rstrip() + f'\n{{"t": 1, "event": "x at {one.value}"}}\n'.encode())
    if file.endswith(".json"):
        shutil.copy(runs[0] / file, path)
        change(runs[1], file, **({"run": NAMES[1]} if file == "manifest.json" else {}), claim=f"x at {one.value}")
    with pytest.raises(PackingError, match=rf"{file}.*, line \d+ holds {one.what}: .*x at {one.value}"):
        pack(runs, TO, [one])
    assert not TO.exists()


def test_a_run_that_names_its_own_place_is_refused(runs: list[Path]) -> None:
    """It is that of another checkout than this one, as when a campaign is played in a clone."""
    change(runs[1], "results.json", claim=f"read {runs[1].resolve()}/sent.jsonl")
    with pytest.raises(PackingError, match=r"results\.json, line \d+ holds the path of a run"):
        pack(runs, TO, [])
    assert not TO.exists()


def test_a_name_is_a_whole_word() -> None:
    name = Private("a name", "vm", word=True)
    assert name.find("jvm, vm-1, vms, evm") is None
    assert name.find('"host": "vm"') is not None
    assert name.find("vm.example.org") is not None


def test_private_are_paths_names_and_registries() -> None:
    found = {one.what: one.value for one in private({"GOPROXY": "https://go.corp.example/x|direct,off"}, CHECKOUT)}
    assert found["the home directory"] == str(Path.home())
    assert Path(found["the checkout's path"], "Makefile").is_file()
    assert found["a host of GOPROXY"] == "go.corp.example"
    assert not [one for one in private({}, CHECKOUT) if one.what.startswith("a host")]


def test_the_sum_is_looked_through_too(runs: list[Path]) -> None:
    place = Path("box-7") / "evidence"
    with pytest.raises(PackingError, match=r"results\.json, line"):
        pack(runs, place, [Private("a name", "box-7", word=True)])
    assert not place.exists()


def test_a_folder_with_texts_is_filled_and_keeps_them(runs: list[Path]) -> None:
    TO.mkdir(parents=True)
    (TO / "README.md").write_text("what it shows\n")
    with pytest.raises(PackingError, match="bytes in all"):
        pack(runs, TO, [], limit=10)
    pack(runs, TO, [])
    assert (TO / "README.md").read_text() == "what it shows\n"
    with pytest.raises(PackingError, match=f"holds {KEPT[0]}, {KEPT[1]}, report.html"):
        pack(runs, TO, [])


def test_errors_are_one_line_and_exit_code_2(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    (runs[0] / "sent.jsonl").unlink()
    assert main(["evidence", *map(str, runs), "--to", str(TO)]) == 2
    assert capsys.readouterr().err == (
        f"✗ {runs[0] / 'sent.jsonl'} is missing: `make check RUN={runs[0]}` says what the run lacks\n"
    )
    pack(runs[1:], TO, [])
    packed = TO / KEPT[1]
    packed.write_bytes(packed.read_bytes()[:-100])
    assert main([str(packed)]) == 2
    assert capsys.readouterr().err.startswith(f"✗ {packed} is damaged (")
