"""What is there is not built again, and what it was made of tells whether it is there."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from infra.cluster.engine import Engine, EngineError
from infra.console import Console
from infra.images import catalogue, rootfs, wheels
from infra.images.builder import TAG_DIGITS, Builder, write_references
from infra.images.catalogue import Image
from infra.images.sbom import write_sboms
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import Toolchain
from tests.unit.cluster.fake_engine import FakeDocker
from tests.unit.images.fake_wheel import wheel

NO_TOOLCHAIN = cast(Toolchain, SimpleNamespace())
References = Callable[..., dict[str, str]]
DIGEST = f"sha256:{'0a' * 32}"


class FakeStore:
    """An engine that keeps the label of every image it built or imported, and says which packages are in them all."""

    def __init__(self, docker: FakeDocker, labels: Path) -> None:
        """Keep labels, one file each, in the folder `labels`."""
        self.docker, self.labels, self.packages = docker, labels, labels.with_name("packages")
        labels.mkdir()
        self.packages.write_text("openssl\t1\n")
        name = f'name={labels}/$(echo "$tag" | tr / _)'
        built = "tar -xOf - Dockerfile | sed -n 's/^LABEL effectively-once.key=//p'"
        docker.answers(
            {
                "image?inspect*Size*": "echo 2097152",
                "image?inspect*Created*": "echo 2026-11-27T10:00:00.123456789Z",
                "image?inspect*": f'for tag; do :; done; {name}; [ -f "$name" ] && cat "$name"',
                "image?ls*": f'cd {labels}; grep -lx "${{4##*=}}" * | tr _ /',
                "build*": f'while [ "$1" != --tag ]; do shift; done; tag="$2"; {name}; {built} >"$name"',
                "import*": f'for tag; do :; done; {name}; echo "${{3#*key=}}" >"$name"',
                "tag*": f'tag="$2"; {name}; from="$name"; tag="$3"; {name}; cp "$from" "$name"',
                "rmi*": f'tag="$2"; {name}; rm "$name"',
                "run*dpkg-query*--showformat*": r"printf 'libssl3\t3.0.19-1\tamd64\topenssl\t3.0.19-1\n'",
                "run*dpkg-query*": f"cat {self.packages}",
                "save*": 'echo "$*" >"$3"',
            }
        )

    def made(self) -> list[str]:
        """Names of what was built since the last time, in order, without their tags."""
        calls = [call.split() for call in self.docker.calls]
        self.docker.path.with_name("calls").unlink(missing_ok=True)
        tags = [
            words[words.index("--tag") + 1] if words[0] == "build" else words[-1]
            for words in calls
            if words[0] in ("build", "import")
        ]
        return [tag.partition(":")[0].removeprefix("effectively-once-") for tag in tags]


@pytest.fixture
def store(docker: FakeDocker, tmp_path: Path) -> FakeStore:
    return FakeStore(docker, tmp_path / "labels")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of three images: base <- tools <- spark."""
    root = tmp_path / "images"
    for name in ("tools", "spark"):
        (root / name).mkdir(parents=True)
        (root / name / "Dockerfile").write_text("ARG PARENT\nFROM ${PARENT}\n")
    monkeypatch.setattr(catalogue, "FOLDER", root)
    monkeypatch.setattr(catalogue, "PUBLISHED", ("tools", "spark"))
    monkeypatch.setattr(rootfs, "rootfs", lambda *_: tmp_path / "rootfs.tar")
    three = [catalogue.base("amd64"), Image("tools", "base"), Image("spark", "tools")]
    monkeypatch.setattr(catalogue, "images", lambda *_: three)
    return root


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def builder(machine: Engine, cache: Cache, console: Console) -> Builder:
    return Builder(machine, cache, NO_TOOLCHAIN, console)


@pytest.fixture
def references(builder: Builder, folder: Path, store: FakeStore) -> References:
    """Build what is not there of three images, for a registry or none; returns their references."""
    return lambda prefix="": replace(builder, prefix=prefix).build_all()


def test_images_are_built_parents_first_and_only_once(references: References, store: FakeStore) -> None:
    found = references()
    assert set(found) == {"tools", "spark"}
    parents = [call.split("PARENT=")[1].split()[0] for call in store.docker.calls if "PARENT=" in call]
    assert parents[1] == found["tools"]
    assert store.made() == ["base", "tools", "spark"]
    assert references() == found
    assert store.made() == []


@pytest.mark.parametrize(("changed", "built"), [("tools", ["tools", "spark"]), ("spark", ["spark"])])
def test_a_change_builds_its_image_and_those_upon_it_under_new_names(
    changed: str, built: list[str], references: References, store: FakeStore, folder: Path
) -> None:
    before = references()
    store.made()
    with (folder / changed / "Dockerfile").open("a") as out:
        out.write("ENV A=1\n")
    after = references()
    assert store.made() == built
    assert {name for name in after if after[name] != before[name]} == set(built)


def test_an_image_that_somebody_removed_or_another_of_its_name_is_built_again(
    references: References, store: FakeStore
) -> None:
    spark = references()["spark"]
    store.made()
    (store.labels / spark).unlink()
    assert references()["spark"] == spark
    assert store.made() == ["spark"]
    (store.labels / spark).write_text("of another content\n")
    assert references()["spark"] == spark
    assert store.made() == ["spark"]


def test_packages_of_another_day_are_another_name(references: References, store: FakeStore) -> None:
    """Nothing that was asked for differs; the engine lost its images, or it is another machine."""
    before = references()
    store.packages.write_text("openssl\t2\n")
    assert references() == before, "what is there is what was built"
    for label in store.labels.iterdir():
        label.unlink()
    assert not {*before.values()} & {*references().values()}


def test_a_build_that_was_interrupted_before_its_name_is_no_image(references: References, store: FakeStore) -> None:
    found = references()
    (store.labels / found["spark"]).rename(store.labels / "effectively-once-spark:building")
    store.made()
    assert references() == found
    assert store.made() == ["spark"]
    assert not [path for path in store.labels.iterdir() if path.name.endswith("building")]


def test_an_image_that_is_there_is_pushed_and_not_built_again(references: References, store: FakeStore) -> None:
    here = references()
    store.made()
    prefix = "registry.example/team/"
    there = {name: f"{prefix}{tag}" for name, tag in here.items()}
    assert references(prefix) == there
    assert store.made() == []
    assert {one.replace("/", "_") for one in there.values()} <= {path.name for path in store.labels.iterdir()}


def test_only_what_a_deployment_names_is_called_after_the_registry(references: References, docker: FakeDocker) -> None:
    found = references("registry.example/team/").values()
    assert all(reference.startswith("registry.example/team/effectively-once-") for reference in found)
    assert all(len(reference.rpartition(":")[2]) == TAG_DIGITS for reference in found)
    (imported,) = [call for call in docker.calls if call.startswith("import")]
    assert imported.split()[-1] == "effectively-once-base:building"


def test_a_users_wheel_gets_an_image_upon_spark_which_is_published_with_the_others(
    references: References, store: FakeStore, folder: Path, cache: Cache, tmp_path: Path
) -> None:
    (folder / "job").mkdir()
    (folder / "job" / "Dockerfile").write_text("ARG PARENT\nFROM ${PARENT}\nCOPY wheel /w\n")
    wheels.keep(cache, wheel(tmp_path))
    found = references("registry.example/team/")
    assert set(found) == {"tools", "spark", "job-clicks"}
    assert found["job-clicks"].startswith("registry.example/team/effectively-once-job-clicks:")
    (built,) = [call for call in store.docker.calls if "--tag effectively-once-job-clicks" in call]
    assert f"PARENT={found['spark']}" in built
    store.made()
    assert references("registry.example/team/") == found
    assert store.made() == []


@pytest.mark.usefixtures("store")
def test_the_node_brings_the_base_and_the_control_plane_saved_once(
    builder: Builder, docker: FakeDocker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "node").mkdir()
    (folder / "node" / "Dockerfile").write_text("ARG PARENT\nFROM ${PARENT}\n")
    pause = Image("pause", None, {"Dockerfile": b"FROM scratch\n"}, folder="none", tag="effectively-once.local/pause:1")
    monkeypatch.setattr(catalogue, "control_plane", lambda *_: [pause])
    monkeypatch.setattr(catalogue, "images", lambda *_: pytest.fail("a node needs nothing that a deployment does"))
    given: list[tuple[Path, str]] = []

    def node(_cache: Cache, _console: Console, _arch: str, preloaded: Path, base: str) -> Image:
        given.append((preloaded, base))
        return Image("node", "base", facts={"preloaded": preloaded.parent.name})

    monkeypatch.setattr(catalogue, "node", node)
    reference = replace(builder).node()
    preloaded, base = given[0]
    assert preloaded.read_text().split()[3:] == [base, "effectively-once.local/pause:1"]
    assert replace(builder).node() == reference
    assert len([call for call in docker.calls if call.startswith("save")]) == 1


@pytest.mark.usefixtures("store")
def test_sizes_are_numbers_of_bytes(builder: Builder, docker: FakeDocker) -> None:
    assert builder.sizes({"spark": f"reg:5000/spark:1@{DIGEST}"}) == {"spark": 2 * 2**20}
    assert docker.calls[-1].endswith(" reg:5000/spark:1"), "the engine that built it knows it by its tag"


def test_a_push_that_the_registry_refuses_is_reported_with_what_to_do(
    builder: Builder, said: io.StringIO, docker: FakeDocker
) -> None:
    docker.answers({"*bad:1": "echo 'denied' >&2; exit 1", "push*": f"echo 'good: digest: {DIGEST} size: 1234'"})
    builder.push(["good:1"])
    with pytest.raises(EngineError, match="bad:1 was not pushed: denied; log in with `docker login`"):
        builder.push(["bad:1", "good:2"])
    assert docker.calls == ["push good:1", "push bad:1"]
    assert "push good:1" in said.getvalue()


def test_what_was_pushed_is_named_by_its_tag_and_the_digest_that_the_registry_has(
    builder: Builder, docker: FakeDocker
) -> None:
    docker.answers({"push*": f"echo 'f00: Pushed'; echo '1: digest: {DIGEST} size: 1234'"})
    assert builder.push(["registry.example:5000/spark:1"]) == {
        "registry.example:5000/spark:1": f"registry.example:5000/spark:1@{DIGEST}"
    }


@pytest.mark.parametrize("answer", ["spark: Pushed", "1: digest: sha256:0a size: 1"])
def test_a_push_without_a_digest_is_not_what_is_deployed(builder: Builder, docker: FakeDocker, answer: str) -> None:
    docker.answers({"push*": f"echo '{answer}'"})
    with pytest.raises(EngineError, match=f"spark:1 was pushed, and the engine did not say .*{answer}.*Docker"):
        builder.push(["spark:1"])


def test_each_published_image_gets_a_bill_of_what_it_and_its_parents_bring(
    builder: Builder, folder: Path, store: FakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libs = tmp_path / "libs"
    libs.mkdir()
    with zipfile.ZipFile(libs / "one-1.0.jar", "w") as jar:
        jar.writestr("META-INF/maven/org.example/one/pom.properties", "")
    images = [catalogue.base("amd64"), Image("tools", "base", {"libs": libs}), Image("spark", "tools")]
    monkeypatch.setattr(catalogue, "images", lambda *_: images)
    bills = tmp_path / "build" / "sbom"
    assert [*write_sboms(builder, "", bills)] == [(bills / f"{name}.cdx.json", 2) for name in ("tools", "spark")]
    spark = json.loads((bills / "spark.cdx.json").read_text())
    named = spark["metadata"]["component"]
    assert f"{named['name']}:{named['version']}" == replace(builder).build_all()["spark"]
    assert spark["metadata"]["timestamp"].startswith("2026-11-27T10:00:00")
    assert {one["purl"].partition("?")[0] for one in spark["components"]} == {
        "pkg:maven/org.example/one@1.0",
        "pkg:deb/debian/libssl3@3.0.19-1",
    }
    (bills / "tools.cdx.json").unlink()
    before = (bills / "spark.cdx.json").read_bytes()
    assert [*write_sboms(replace(builder), "spark", bills)] == [(bills / "spark.cdx.json", 2)]
    assert (bills / "spark.cdx.json").read_bytes() == before
    assert not (bills / "tools.cdx.json").exists()


def test_references_are_written_only_when_they_say_something_else(tmp_path: Path) -> None:
    path = tmp_path / "images.json"
    write_references(path, {"b": "2", "a": "1"})
    first = path.stat()
    write_references(path, {"a": "1", "b": "2"})
    assert path.stat().st_mtime_ns == first.st_mtime_ns
    write_references(path, {"a": "1"})
    assert "2" not in path.read_text()
