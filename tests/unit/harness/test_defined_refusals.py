"""What the campaign refuses of a pipeline of somebody else's before anything is started, and in which words."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra.new_pipeline import new_pipeline
from infra.toolchain.prepare import CHECKOUT
from infra.toolchain.wheel import Wheel
from tests.harness.campaigns import chaos, cluster, embedded
from tests.harness.campaigns.options import ALONE
from tests.harness.mixture import STACKS, Stack
from tests.harness.stack.deployed import Found

OF_TASKS = {"embedded": "worker-kill", "cluster": "worker-stall"}
ROW = '{{"id": "{0}", "event_time_ms": {0}, "key": "a", "amount": 1}}\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a skeleton, whose wheel is built once, and of that cache."""
    folder = tmp_path_factory.mktemp("made")
    new_pipeline("clicks", folder / "clicks")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A skeleton; the toolchain is a stand-in, and nothing goes beyond it."""
    shutil.copytree(made / "clicks", tmp_path / "clicks")
    library = Wheel(Path("library.whl"), "ab" * 32, CHECKOUT / "pipelines" / "src")
    monkeypatch.setenv("EFFECTIVELY_ONCE_CACHE", str(made / "cache"))
    for campaign in (embedded, cluster):
        monkeypatch.setattr(campaign, "prepare", lambda _: SimpleNamespace(wheel=library))
    monkeypatch.setattr(embedded, "class_archive", _never)
    monkeypatch.setattr(Found, "here", _never)
    return tmp_path / "clicks"


def _never(*_: Any) -> None:
    raise AssertionError("it went on")


def refused(on: str, capsys: pytest.CaptureFixture[str], folder: Path, text: str, *more: str) -> str:
    """Give the campaign on a stack a file of that text; what it says on its error output."""
    events = folder.with_name("events.jsonl")
    events.write_text(text)
    words = ["--at", str(folder), "--input", str(events), "--key", "key", "--time", "event_time_ms", *more]
    assert chaos.main(["--on", on, *words]) == 2
    return capsys.readouterr().err


ONE = ROW.format(1)
REFUSED = [
    ("".join(map(ROW.format, range(60))), ["--faults", "driver-kill*2"], "60 rows are too few ... give 250 rows"),
    ("{broken\n" * 500, [], "none of its 500 lines is a JSON object"),
    ('{"event_time_ms": 1, "user": "a"}\n' * 500, [], "column 'key' (KEY) is not there"),
    (ONE, ["--faults", "meteorite"], "there is no fault 'meteorite'"),
    (ONE, ["--faults", "task-kill"], "your job's driver runs as it is"),
    (ONE, ["--faults", "database-kill"], "there is no result store here"),
    (ONE, ["--job", "no_such_module"], "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    (ONE, ["--job", "clicks.transform"], "the module has no pipeline that is a Pipeline"),
    (ONE, ["--job", "clicks:other"], "the module has no other that is a Pipeline"),
]


# Asking a pipeline takes a second: on both stacks only what each looks at by itself.
CASES = [*(("embedded", *one) for one in REFUSED), *(("cluster", *one) for one in REFUSED[:6])]


@pytest.mark.parametrize(("on", "text", "words", "why"), CASES)
@pytest.mark.thinned(3)
def test_what_cannot_be_struck_is_refused_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str], on: str, *, text: str, words: list[str], why: str
) -> None:
    said = refused(on, capsys, folder, text, *words)
    assert all(part in said for part in why.split(" ... ")), said


def test_the_clock_of_its_driver_is_not_stepped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "runs without libfaketime" in refused("embedded", capsys, folder, ONE, "--faults", "clock-step")


@pytest.mark.parametrize("on", STACKS)
def test_a_folder_that_is_none(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], on: str) -> None:
    assert "`make new-pipeline` makes one" in refused(on, capsys, tmp_path / "nothing", ONE)


WITHOUT = [
    (["--input", "e.jsonl", "--key", "key", "--time", "at"], "name the folder of a pipeline"),
    (["--at", "clicks", "--key", "key", "--time", "at"], "give --input as well"),
    (["--at", "clicks", "--input", "e.jsonl"], "give --key, --time as well"),
    (["--at", "c", "--input", "e", "--key", "k", "--time", "t", "--rate", "5"], "--rate is of the seeded stream"),
    (["--at", "c", "--input", "e", "--key", "k", "--time", "t", "--unproven"], "--unproven is of the seeded stream"),
]


@pytest.mark.parametrize("on", STACKS)
@pytest.mark.parametrize(("words", "why"), WITHOUT)
def test_words_that_do_not_go_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, on: str, words: list[str], why: str
) -> None:
    monkeypatch.setattr(chaos, "play", _never)
    assert chaos.main(["--on", on, *words]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(("on", "option"), [(on, option) for on, options in ALONE.items() for option in options])
def test_what_one_stack_has_alone_is_refused_on_the_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, on: Stack, option: str
) -> None:
    monkeypatch.setattr(chaos, "play", _never)
    (other,) = {*STACKS} - {on}
    word = f"--{option.replace('_', '-')}"
    words = ["--unproven", word] if option == "repair" else [word, "3"]
    assert chaos.main(["--on", other, *words]) == 2
    assert f"{word} is for the {on} stack" in capsys.readouterr().err


@pytest.mark.parametrize("on", STACKS)
def test_its_plan_is_of_its_own_steps(folder: Path, capsys: pytest.CaptureFixture[str], on: str) -> None:
    events = folder.with_name("events.jsonl")
    events.write_text("".join(map(ROW.format, range(3_000))))
    words = ["--at", str(folder), "--input", str(events), "--key", "key", "--time", "event_time_ms"]
    assert chaos.main(["--on", on, *words, "--seed", "3", "--plan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[1] for line in lines) == sorted(
        ["executor-kill", "executor-kill", "driver-kill", "broker-kill", "store-kill", OF_TASKS[on]]
    )
    at = {line.partition(" at ")[2].partition(",")[0] for line in lines}
    own = {"transaction_open:accepted", "committed:accepted", "ids_decided", "declared"}
    assert at <= own | ({"windows_decided"} if on == "embedded" else set())
