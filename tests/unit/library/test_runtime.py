"""A declaration pins what the content depends on beside the wheel: each component, and every jar (R3)."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyspark
import pytest

from effectively_once.driver import runtime
from effectively_once.driver.runtime import PACKAGES, runtime_of
from effectively_once.ledger.pinned_version import IMAGE


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return settings that name a folder and a file beside Spark's own folder: four jars."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    for name in ("spark/jars/core.jar", "spark/jars/sql.jar", "beside/kafka.jar", "ours.jar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(tmp_path / name, "w") as jar:
            jar.writestr(zipfile.ZipInfo("a.class"), name)
    return {runtime.CLASS_PATH: f"{tmp_path}/ours.jar:{tmp_path}/beside/*"}


def test_every_component_is_named_with_what_is_installed(jars: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    told = runtime_of(jars)
    assert set(told) == {"python", "spark", "jars", *PACKAGES}
    assert told["spark"] == pyspark.__version__


def test_in_a_pod_it_names_the_image_for_whoever_has_to_bring_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    image = "registry.example/team/effectively-once-spark:4f1c0a9b27de"
    monkeypatch.setenv(runtime.IMAGE_VARIABLE, "")
    bare = runtime_of(None)
    assert IMAGE not in bare
    assert "jars" not in bare, "who knows no class path tells of none"
    monkeypatch.setenv(runtime.IMAGE_VARIABLE, image)
    assert runtime_of(None) == {**bare, IMAGE: image}


@pytest.mark.parametrize("name", PACKAGES)
def test_another_version_of_a_package_is_another_runtime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = runtime_of(None)
    monkeypatch.setattr(runtime, "version", lambda asked: "0.0.1" if asked == name else first[asked])
    assert runtime_of(None) == {**first, name: "0.0.1"}


@pytest.mark.parametrize("name", ["spark/jars/core.jar", "beside/kafka.jar", "ours.jar"])
def test_a_jar_that_changes_comes_or_goes_is_another_runtime(jars: dict[str, str], tmp_path: Path, name: str) -> None:
    before, jar = runtime_of(jars)["jars"], tmp_path / name
    with zipfile.ZipFile(jar, "w") as changed:
        changed.writestr(zipfile.ZipInfo("a.class"), name[::-1])  # as long as before
    assert runtime_of(jars)["jars"] != before
    jar.unlink()
    assert runtime_of(jars)["jars"] != before


def test_where_the_jars_lie_is_no_part_of_it(
    jars: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = runtime_of(jars)["jars"]
    (tmp_path / "spark").rename(tmp_path / "other")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "other"))
    assert runtime_of(jars)["jars"] == before
