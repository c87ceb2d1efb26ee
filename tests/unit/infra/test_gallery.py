"""The gallery: each example is a folder that the commands take, small enough to be read, and on its page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pyarrow as pa
import pytest

from effectively_once import Count, Pipeline, ToKafka, Windowed
from effectively_once.pipeline.job import import_pipeline
from infra.new_pipeline import render
from infra.toolchain.prepare import CHECKOUT
from infra.toolchain.wheel import read_sources
from tests.gallery import GALLERY, PAGE, names
from tests.harness.definition.declared import NotJudgedError, describe
from tests.harness.subject import from_file

LINES = 60
"""Of a file: what an example may take of a reader's time."""
RECORDS = 1000
RECORDS_S = 60.0
STATEFUL = "sessions"
"""The one that `make chaos` refuses."""
ALL = pytest.mark.parametrize("name", names())
SAMPLES: dict[pa.DataType, Any] = {
    # What is collected is JSON.
    pa.string(): '["a"]',
    pa.int64(): 1_772_323_200_000,
    pa.float64(): 1.5,
    pa.bool_(): False,
    pa.timestamp("us", "UTC"): "2026-03-01T12:00:00+00:00",
}


def mistakes(folder: Path) -> Iterator[str]:
    """Say what is wrong with a folder: files, their length, and what the commands would make of it."""
    name = folder.name
    made = {path.format(name=name): text for path, text in render(name).items()}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.suffix != ".pyc"}
    wanted = {"pyproject.toml", "settings.json", "records.py", f"src/{name}/__init__.py", f"tests/test_{name}.py"}
    yield from (f"{path} is missing" for path in sorted(wanted - found))
    yield from (f"{path} is more than an example needs" for path in sorted(found - wanted))
    for path in sorted(found):
        if path.endswith(".py") and (lines := len((folder / path).read_text().splitlines())) > LINES:
            yield f"{path} has {lines} lines"
    if (folder / "settings.json").read_text() != made["settings.json"]:
        yield "settings.json is not as `make new-pipeline` makes it"
    # Tests import the generator, which stands beside `src`.
    project = made["pyproject.toml"].replace('pythonpath = ["src"]', 'pythonpath = ["src", "."]')
    if (folder / "pyproject.toml").read_text() != project:
        yield "pyproject.toml is not as `make new-pipeline` makes it"


def sections(page: str) -> dict[str, str]:
    """Return what the page says of each example, by its name."""
    parts = re.split(r"^## ([a-z_]+)$", page, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def unlisted(page: str, folders: list[str]) -> list[str]:
    """Return the names that are not both folder, row of the table, and section."""
    rows = re.findall(r"\[`([a-z_]+)`\]\(#\1\) \|$", page, re.MULTILINE)
    counted = Counter([*set(folders), *rows, *sections(page)])
    return sorted(name for name, times in counted.items() if times != 3)


def columns_of_input(name: str) -> tuple[str, str]:
    """Return KEY and TIME as the page has them for an example."""
    found = re.search(rf"INPUT={name}\.jsonl KEY=(\w+) TIME=(\w+)", PAGE.read_text())
    return (found[1], found[2]) if found else ("user", "event_time_ms")


def generate(folder: Path, seed: int = 7) -> bytes:
    """Run a generator as the page does."""
    argv = [sys.executable, "records.py", "--records", str(RECORDS), "--seed", str(seed)]
    return subprocess.run(argv, cwd=folder, capture_output=True, timeout=RECORDS_S, check=True).stdout


@pytest.fixture
def pipeline(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """The declaration of an example, imported as a driver does."""
    monkeypatch.syspath_prepend(GALLERY / name / "src")
    yield import_pipeline(name)
    del sys.modules[name]


def test_there_are_eight() -> None:
    assert len(names()) == 8
    assert {path.name for path in GALLERY.iterdir()} == set(names())


@ALL
def test_a_folder_is_what_the_commands_take_and_no_more(name: str) -> None:
    assert list(mistakes(GALLERY / name)) == []


def _lengthen(folder: Path) -> None:
    path = folder / "records.py"
    path.write_text(path.read_text() + "#\n" * LINES)


BROKEN: list[tuple[Callable[[Path], object], str]] = [
    (lambda folder: (folder / "README.md").touch(), "README.md is more than an example needs"),
    (lambda folder: (folder / "records.py").unlink(), "records.py is missing"),
    (_lengthen, "records.py has "),
    (lambda folder: (folder / "settings.json").write_text("{}"), "settings.json is not as"),
    (lambda folder: (folder / "pyproject.toml").write_text(""), "pyproject.toml is not as"),
]


@pytest.mark.parametrize(("breaks", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_folder_that_is_something_else_is_found(breaks: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GALLERY / "orders", tmp_path / "orders", ignore=shutil.ignore_patterns("*cache*")))
    breaks(folder)
    (found,) = mistakes(folder)
    assert found.startswith(said)


def test_every_folder_is_on_the_page_and_the_page_names_no_other() -> None:
    page = PAGE.read_text()
    assert unlisted(page, names()) == []
    assert unlisted(page, [*names(), "clicks"]) == ["clicks"]
    assert unlisted(page, names()[1:]) == names()[:1]
    assert unlisted(page.replace("## cdc\n", "## tables\n"), names()) == ["cdc", "tables"]
    assert unlisted(page.replace("](#cdc)", "](#tables)"), names()) == ["cdc"]


@ALL
@pytest.mark.thinned(4)
def test_records_are_the_same_for_a_seed_and_have_what_real_ones_have(name: str, tmp_path: Path) -> None:
    """Copies, disorder, and rows that cannot be used, few enough that most can."""
    written = generate(GALLERY / name)
    assert written == generate(GALLERY / name)
    assert written != generate(GALLERY / name, seed=8)
    lines = written.splitlines()
    by_id: dict[str, set[bytes]] = {}
    for line in lines:
        by_id.setdefault(json.loads(line)["id"], set()).add(line)
    assert len(lines) == RECORDS
    assert 0.9 * RECORDS < len(by_id) < RECORDS, "copies have the id of their record"
    assert all(len(copies) == 1 for copies in by_id.values()), "and are the same, time and all"
    times = [json.loads(line)["event_time_ms"] for line in lines]
    assert times != sorted(times)
    assert min(times) == 1_772_323_200_000, "no clock"
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(written)
    key, time = columns_of_input(name)
    assert from_file(path, key, time).numbers.malformed_sent < RECORDS // 20


@ALL
def test_the_page_says_what_is_judged(name: str, pipeline: Pipeline) -> None:
    text = " ".join(sections(PAGE.read_text())[name].split())
    (judged,) = re.findall(r"Judged: (.*?)\.(?: |$)", text)
    if name == STATEFUL:
        assert judged == "nothing"
        with pytest.raises(NotJudgedError) as refused:
            describe(pipeline)
        assert f"`{refused.value}`" in text
        assert f"AT=pipelines/gallery/{name}" not in text
        return
    declaration = describe(pipeline)["declaration"]
    without = set(pipeline.recorded.adds.names) if pipeline.recorded else set()
    assert set(re.findall(r"`(\w+)`", judged)) == {sink["name"] for sink in declaration["sinks"]} | without
    assert (" without " in judged) == bool(without)
    assert all(f"`{sink}`" in text for sink in declaration["left_out"])


@pytest.mark.parametrize("name", ["orders"])
def test_a_sink_that_the_page_does_not_name_would_be_found(name: str, pipeline: Pipeline) -> None:
    more = Windowed("shop", {"orders": Count()}, ToKafka("more"))
    changed = describe(replace(pipeline, windows=(*pipeline.windows, more)))
    assert "`more`" not in sections(PAGE.read_text())[name]
    assert "more" in {sink["name"] for sink in changed["declaration"]["sinks"]}


@ALL
def test_the_page_reads_what_the_sinks_have(
    name: str, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks of pandas run on rows with the columns of each sink, written as `read` prints them."""
    monkeypatch.chdir(tmp_path)
    for sink in pipeline.sinks:
        (tmp_path / f"{sink}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in sample(pipeline, sink)))
    blocks = re.findall(r"^```python\n(.*?)^```", sections(PAGE.read_text())[name], re.MULTILINE | re.DOTALL)
    (reading, *others) = blocks
    exec(reading, {"pd": pd, "json": json, "Decimal": Decimal})  # noqa: S102 - of our own page
    assert capsys.readouterr().out.strip()
    assert all("read_lake_table(" in block for block in others), "what needs servers"


def sample(pipeline: Pipeline, sink: str) -> Iterator[dict[str, Any]]:
    """Give two rows of a sink, of two windows."""
    for number in range(2):
        row = {column.name: SAMPLES.get(column.type, "1.50") for column in pipeline.schema_of(sink)}
        yield row | ({"window_start_ms": number * 86_400_000} if "window_start_ms" in row else {})


def test_no_image_changes_with_an_example() -> None:
    """The wheel, on which images depend, is made of its own sources."""
    sources = read_sources(CHECKOUT / "pipelines")
    assert "src/effectively_once/__init__.py" in sources
    assert not [path for path in sources if "gallery" in path]
