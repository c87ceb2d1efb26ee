"""Without a wheel the version is all of a job's own code (R3); a package has one digest wherever it lies."""

from __future__ import annotations

import functools
import importlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from effectively_once.driver.version import code_digest, package_digest, package_digests
from effectively_once_jobs.user_counts import pipeline

FILES = {
    "shop/__init__.py": "",
    "shop/common/__init__.py": "",
    "shop/common/money.py": "RATE = 1",
    "shop/clicks/__init__.py": "from shop.clicks.transform import events",
    "shop/clicks/transform.py": "from .parse import cents\nfrom ..common import money\nimport json, beside\n"
    "def events(frame):\n    from lazily import late\n    return cents(frame)",
    "shop/clicks/parse.py": "def cents(frame): return frame",
    "shop/clicks/by_name.py": "",
    "shop/other/__init__.py": "",
    "beside.py": "import far.away.deep as deep",
    "far/away/deep.py": "X = 1",
    "lazily.py": "raise RuntimeError('it is not run to be looked at')",
    "unused.py": "",
    "site-packages/installed.py": "",
}
OWN = [
    "shop/__init__.py",
    "shop/common/__init__.py",
    "shop/common/money.py",
    "shop/clicks/__init__.py",
    "shop/clicks/transform.py",
    "shop/clicks/parse.py",
    "shop/clicks/by_name.py",
    "beside.py",
    "far/away/deep.py",
    "lazily.py",
]


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for folder in (tmp_path, tmp_path / "site-packages"):
        monkeypatch.syspath_prepend(str(folder))
    before = {*sys.modules}
    yield importlib.import_module("shop.clicks").events
    for name in {*sys.modules} - before:
        del sys.modules[name]


@pytest.mark.parametrize("name", FILES)
def test_a_module_counts_when_it_is_of_the_jobs_package_or_imported_by_it(
    events: Any, tmp_path: Path, name: str
) -> None:
    first = code_digest(events)
    assert code_digest(events) == first
    with (tmp_path / name).open("a") as file:
        file.write("\n# another meaning of every record\n")
    assert (code_digest(events) != first) == (name in OWN), name


def test_a_module_that_comes_or_goes_is_another_version(events: Any, tmp_path: Path) -> None:
    first = code_digest(events)
    (tmp_path / "shop" / "clicks" / "later.py").touch()
    assert code_digest(events) != first
    (tmp_path / "shop" / "clicks" / "later.py").unlink()
    assert code_digest(events) == first


def test_what_is_pythons_own_adds_nothing() -> None:
    """`int`, `max` and `list.__add__` are functions of an aggregate of its author's own at times."""
    own = (int, max, list, sum, list.__add__, dict.__or__, str.join)
    assert code_digest(*own) == code_digest()
    assert package_digests(*own) == package_digests()


def test_the_place_of_the_code_is_no_part_of_it(
    events: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = code_digest(events)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "job"
    tmp_path.rename(elsewhere)
    for folder in (str(tmp_path), str(tmp_path / "site-packages")):
        sys.path.remove(folder)
    monkeypatch.syspath_prepend(str(elsewhere))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shop", "beside", "far")]:
        del sys.modules[name]
    assert code_digest(importlib.import_module("shop.clicks").events) == first


def test_a_package_has_one_digest_wherever_it_lies(events: Any, tmp_path: Path) -> None:
    first = package_digests(functools.partial(events))
    assert set(first) == {"effectively_once", "shop"}
    elsewhere = Path(shutil.copytree(tmp_path / "shop", tmp_path / "site-packages" / "shop"))
    (elsewhere / "__pycache__").mkdir(exist_ok=True)
    (elsewhere / "notes.txt").write_text("no code")
    assert package_digest(elsewhere) == first["shop"]
    (elsewhere / "clicks" / "parse.py").rename(elsewhere / "clicks" / "other.py")
    assert package_digest(elsewhere) != first["shop"]
    (tmp_path / "shop" / "clicks" / "later.py").write_text("")
    assert package_digests(events)["shop"] != first["shop"]


def test_a_module_that_is_a_file_alone_is_digested_by_its_name(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("X = 1")
    other.write_text("X = 1")
    assert package_digest(one) != package_digest(other)
    (tmp_path / "moved").mkdir()
    assert package_digest(Path(shutil.copy(one, tmp_path / "moved"))) == package_digest(one)


def test_a_function_of_no_module_is_passed_over() -> None:
    nameless = replace(pipeline, transform=len)
    assert set(package_digests(*nameless.functions)) >= {"effectively_once"}
