"""What the pages of the platform and of its security name is there: tests, settings, commands, files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from infra.settings import Settings
from infra.settings.pipeline import Pipeline

ROOT = Path(__file__).resolve().parents[3]
PLATFORM = ROOT / "docs" / "reference" / "platform.md"
SECURITY = PLATFORM.with_name("security.md")
ROW = re.compile(r"^\| (?!feature|rule|--)(.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([^`]+)`")
NO = "no"


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of each table."""
    yield from ([cell.strip() for cell in found[1].split(" | ")] for found in ROW.finditer(text))


def wrong(row: list[str]) -> Iterator[str]:
    """Yield what a row names and is not there, and a proof that names nothing."""
    for cell in row[1:]:
        yield from (f"{row[0]}: {name}" for name in NAMED.findall(cell) if not is_there(name))
    for cell in row[2:]:
        if cell and not cell.startswith(NO) and "tests/" not in cell and "](../evidence/" not in cell:
            yield f"{row[0]}: nothing proves it"


def is_there(name: str) -> bool:
    """Whether a test, file, command or setting exists."""
    if name.startswith("tests/") and "::" in name:
        file, _, test = name.partition("::")
        return (ROOT / file).is_file() and re.search(
            rf"^def {test}\(", (ROOT / file).read_text(), re.MULTILINE
        ) is not None
    if name.startswith("make "):
        return re.search(rf"^{name.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None
    if name.startswith("effectively-once "):
        return f"\n## {name.split()[1]}\n" in PLATFORM.with_name("commands.md").read_text()
    if name.startswith("pulumi "):
        return True
    return (ROOT / name).exists() if "/" in name else _is_setting(Settings, name.split("."))


def _is_setting(model: type[BaseModel], path: list[str]) -> bool:
    name, *rest = path
    if name not in model.model_fields:
        return False
    if not rest:
        return True
    if (model, name) == (Settings, "pipelines"):
        return _is_setting(Pipeline, rest[1:])
    return any(_is_setting(one, rest) for one in _models(model.model_fields[name].annotation))


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for one in get_args(kind):
        yield from _models(one)


def test_each_row_of_the_platform_is_proven_or_says_no() -> None:
    every = [*rows(PLATFORM.read_text())]
    assert len(every) > 50
    assert [line for row in every for line in wrong(row)] == []


def test_security_names_tests_that_there_are() -> None:
    named = [name for name in NAMED.findall(SECURITY.read_text()) if name.startswith("tests/")]
    assert len(named) >= 5
    assert [name for name in named if not is_there(name)] == []


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("| x | `kafka.nodez` | `tests/charts/test_kafka.py` |", "x: kafka.nodez"),
        ("| x | `pipelines.<name>.twin` | no |", "x: pipelines.<name>.twin"),
        ("| x | `object_store.external.web_identity.rolle` | no |", "x: object_store.external.web_identity.rolle"),
        ("| x | `make dril` | no: none |", "x: make dril"),
        ("| x | `effectively-once restor` | no |", "x: effectively-once restor"),
        ("| x | `infra/policies` | no |", "x: infra/policies"),
        ("| x |  | `tests/charts/test_kafkas.py` |", "x: tests/charts/test_kafkas.py"),
        ("| x |  | `tests/charts/test_kafka.py::test_volume` |", "x: tests/charts/test_kafka.py::test_volume"),
        ("| x | `kafka.nodes` | rendered |", "x: nothing proves it"),
        ("| x | `kafka.nodes` |  | [rendered](security.md) |", "x: nothing proves it"),
    ],
)
def test_what_is_not_there_is_found(row: str, says: str) -> None:
    (cells,) = rows(row)
    assert [*wrong(cells)] == [says]


def test_what_is_there_is_not_found() -> None:
    named = "`object_store.external.web_identity.role`, `pipelines.<name>.driver_grace_s`, `make up`, `kafka.nodes`"
    (cells,) = rows(f"| x | {named} | `tests/charts/test_kafka.py::test_volumes` |")
    assert [*wrong(cells)] == []
