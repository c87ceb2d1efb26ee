"""A wheel that an image cannot take is refused before anything is built, with what to do about it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.images import wheels
from infra.images.wheels import WheelError
from infra.toolchain.cache import Cache
from infra.versions import SPARK
from tests.unit.images.fake_wheel import NAME, wheel


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_a_wheel_is_known_by_its_name_and_its_bytes(tmp_path: Path) -> None:
    path = wheel(tmp_path, "My_Clicks-0.1.0-py3-none-any.whl")
    found = wheels.read(path)
    assert (found.name, found.sha256) == ("my-clicks", hashlib.sha256(path.read_bytes()).hexdigest())


GOOD: list[Sequence[str]] = [
    ["Requires-Python: >=3.11"],
    ["Requires-Dist: effectively-once"],
    ["Requires-Dist: Confluent_Kafka>=2", f"Requires-Dist: pyspark=={SPARK}"],
    ["Requires-Dist: flask; extra == 'web'"],
    ["Requires-Dist: tomli; python_version < '3.11'"],
    ["Requires-Dist: pywin32; sys_platform == 'win32'"],
]


@pytest.mark.parametrize("about", GOOD, ids=str)
def test_what_the_image_has_may_be_required(tmp_path: Path, about: Sequence[str]) -> None:
    assert wheels.read(wheel(tmp_path, about=about)).name == "clicks"


@pytest.mark.parametrize("name", ["clicks-1-py2.py3-none-any.whl", "clicks-1-py311-none-any.whl"])
def test_pure_wheels_for_the_images_python_are_taken(tmp_path: Path, name: str) -> None:
    assert wheels.read(wheel(tmp_path, name)).name == "clicks"


BAD: list[tuple[str, Sequence[str], dict[str, str], str]] = [
    ("clicks-1-cp311-cp311-manylinux_2_28_x86_64.whl", [], {}, "is not pure Python for 3.11: build one that ends with"),
    ("clicks-1-py3-none-manylinux_2_28_x86_64.whl", [], {}, "is not pure Python"),
    ("clicks-1-py312-none-any.whl", [], {}, "is not pure Python for 3.11"),
    ("clicks.whl", [], {}, "is no wheel"),
    (NAME, ["Requires-Python: >=3.12"], {}, "needs Python >=3.12, and the image has 3.11"),
    (NAME, ["Requires-Dist: flask>=2"], {}, "needs flask>=2, which is not in the image: put its code into"),
    (NAME, ["Requires-Dist: effectively-once>=999"], {}, "needs effectively-once>=999, and the image has "),
    (NAME, ["Requires-Dist: pandas; sys_platform == 'linux'", "Requires-Dist: no-such"], {}, "needs no-such"),
    (
        NAME,
        [],
        {"clicks/fast.cpython-311-x86_64-linux-gnu.so": ""},
        "parts that would have to be installed, clicks/fast",
    ),
    (NAME, [], {"clicks-0.1.0.data/scripts/run": ""}, "parts that would have to be installed, clicks-0.1.0.data"),
    (NAME, [], {"effectively_once/ledger/chain.py": ""}, "brings effectively_once, which the image has"),
    (NAME, [], {"numpy/__init__.py": ""}, "brings numpy, which the image has"),
    (NAME, [], {"orjson.py": ""}, "brings orjson, which the image has"),
]


@pytest.mark.parametrize(("name", "about", "files", "said"), BAD, ids=[one[3] for one in BAD])
def test_what_an_image_cannot_take_is_refused(
    *, tmp_path: Path, cache: Cache, name: str, about: Sequence[str], files: dict[str, str], said: str
) -> None:
    with pytest.raises(WheelError) as refused:
        wheels.keep(cache, wheel(tmp_path, name, about, files))
    assert said in str(refused.value)
    assert wheels.list_kept(cache) == []


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"cannot be read: No such file.*python -m build --wheel"):
        wheels.read(tmp_path / NAME)
    (tmp_path / NAME).write_text("text")
    with pytest.raises(WheelError, match="is no wheel: File is not a zip file"):
        wheels.read(tmp_path / NAME)


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, files={"clicks/__init__.py": "x = 123456789\n"})
    path.write_bytes(path.read_bytes().replace(b"123456789", b"123456780"))
    with pytest.raises(WheelError, match=r"damaged at clicks/__init__\.py"):
        wheels.read(path)


def test_a_newer_version_takes_the_place_of_the_older_one(tmp_path: Path, cache: Cache) -> None:
    wheels.keep(cache, wheel(tmp_path))
    wheels.keep(cache, wheel(tmp_path, "other-0.1.0-py3-none-any.whl"))
    newer = wheels.keep(cache, wheel(tmp_path, "clicks-0.2.0-py3-none-any.whl", files={"clicks/__init__.py": ""}))
    assert [one.name for one in wheels.list_kept(cache)] == ["clicks", "other"]
    assert wheels.list_kept(cache)[0] == newer


def test_the_wheel_that_is_kept_is_a_copy(tmp_path: Path, cache: Cache) -> None:
    path = wheel(tmp_path)
    kept = wheels.keep(cache, path)
    path.unlink()
    assert wheels.list_kept(cache) == [kept]
