"""Every image has what its Dockerfile copies, and another key when any of it changes."""

from __future__ import annotations

import io
import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from infra import versions
from infra.console import Console
from infra.images import catalogue, packages, rootfs, wheels
from infra.images.catalogue import LOCAL, PUBLISHED, Image
from infra.toolchain import go_tools
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import Toolchain
from tests.unit.images.fake_wheel import wheel

CONSOLE = Console(stream=io.StringIO())


def _toolchain(root: Path, *, wheel: str = "w1", classes: bytes = b"c1", jars: str = "jars-1") -> Toolchain:
    """Artefacts as the cache has them: folders named after their keys."""
    for path in (root / "wheel", root / "kafka-1", root / jars):
        path.mkdir(parents=True, exist_ok=True)
    (root / "jvm.jar").write_bytes(classes)
    return cast(
        Toolchain,
        SimpleNamespace(
            wheel=SimpleNamespace(installed=root / "wheel", sha256=wheel),
            kafka_classpath=root / "kafka-1",
            spark_jars=root / jars,
            jvm_jar=root / "jvm.jar",
        ),
    )


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would take minutes is there: empty files where the builds put theirs."""

    def build(_cache: Cache, tool: go_tools.GoTool, arch: str) -> Path:
        folder = tmp_path / "tools" / f"{tool.name}-{arch}"
        folder.mkdir(parents=True, exist_ok=True)
        for name in tool.binaries:
            (folder / name).touch()
        return folder

    def installed(*_: object) -> Path:
        (tmp_path / "image-packages-1" / "packages").mkdir(parents=True, exist_ok=True)
        return tmp_path / "image-packages-1"

    (tmp_path / "jars-s3a-1").mkdir()
    (tmp_path / "pyspark").mkdir()
    monkeypatch.setattr(go_tools, "build", build)
    monkeypatch.setattr(packages, "install", installed)
    monkeypatch.setattr(catalogue, "resolve_jars", lambda *_: tmp_path / "jars-s3a-1")
    monkeypatch.setattr(catalogue, "pyspark", lambda: tmp_path / "pyspark")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def deployed(cache: Cache, tmp_path: Path) -> list[Image]:
    return catalogue.images(cache, CONSOLE, _toolchain(tmp_path / "t"), "amd64")


@pytest.fixture
def every(deployed: list[Image], cache: Cache, tmp_path: Path) -> list[Image]:
    (tmp_path / "node-images-1").mkdir()
    (tmp_path / "node-images-1" / "images.tar").touch()
    node = catalogue.node(cache, CONSOLE, "amd64", tmp_path / "node-images-1" / "images.tar", "base:1")
    wheels.keep(cache, wheel(tmp_path))
    watch = catalogue.monitoring(cache, CONSOLE, "amd64")
    return [*deployed, watch, *catalogue.jobs(cache), *catalogue.control_plane(cache, CONSOLE, "amd64"), node]


def _dockerfile(image: Image) -> str:
    recipe = image.files["Dockerfile"]
    return recipe.decode() if isinstance(recipe, bytes) else recipe.read_text()


def _with_recipe(images: list[Image]) -> list[Image]:
    return [image for image in images if image.name != "base"]


def _keys(images: list[Image]) -> dict[str, str]:
    """Keys as the builder makes them, parents' included."""
    keys: dict[str, str] = {}
    for image in images:
        keys[image.name] = image.key(keys[image.parent] if image.parent else "")
    return keys


def _changed(before: list[Image], after: list[Image]) -> set[str]:
    old, new = _keys(before), _keys(after)
    return {name for name in old if old[name] != new[name]}


def test_parents_come_before_their_children_and_names_are_given_once(every: list[Image]) -> None:
    seen: list[str] = []
    for image in every:
        assert image.parent is None or image.parent in seen, image.name
        seen.append(image.name)
    assert len(seen) == len(set(seen))
    assert set(PUBLISHED) <= set(seen)


def test_what_watches_is_built_where_it_is_asked_for_alone(deployed: list[Image]) -> None:
    """Prometheus takes minutes."""
    assert catalogue.MONITORING in PUBLISHED
    assert catalogue.MONITORING not in {image.name for image in deployed}


def test_everything_that_a_dockerfile_copies_is_in_its_context(every: list[Image]) -> None:
    copied = 0
    for image in _with_recipe(every):
        names = set(image.files)
        folders = {str(parent) for name in names for parent in Path(name).parents}
        for line in re.findall(r"^COPY (?:--\S+ )*(.+)$", _dockerfile(image), re.MULTILINE):
            for source in line.split()[:-1]:
                assert source.rstrip("/") in names | folders, f"{image.name}: COPY {source}"
                copied += 1
    assert copied > 15


def test_every_dockerfile_takes_a_further_line_and_stands_on_its_parent(every: list[Image]) -> None:
    for image in _with_recipe(every):
        text = _dockerfile(image)
        assert text.endswith("\n"), f"{image.name}: the builder adds a label"
        assert not text.rstrip().endswith("\\"), image.name
        (parent,) = re.findall(r"^FROM (\S+)$", text, re.MULTILINE)
        assert parent == ("${PARENT}" if image.parent else "scratch"), image.name
        assert ("ARG PARENT\n" in text) is bool(image.parent), image.name


def test_published_images_run_under_tini_and_never_as_root(deployed: list[Image]) -> None:
    for image in deployed:
        if image.name in PUBLISHED:
            text = _dockerfile(image)
            assert re.search(r'^ENTRYPOINT \["/usr/bin/tini", "--"', text, re.MULTILINE), image.name
            user = re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1]
            assert int(user) > 0, image.name
            assert not re.search(r"^RUN ", text.rpartition("\nUSER ")[2], re.MULTILINE), image.name


def test_uids_are_those_that_the_charts_rely_on(deployed: list[Image]) -> None:
    uids = {
        image.name: int(re.findall(r"^USER (\d+)$", _dockerfile(image), re.MULTILINE)[-1])
        for image in deployed
        if image.name in PUBLISHED
    }
    assert uids == {"spark": 185, "spark-operator": 185, "kafka": 1001, "minio": 1001, "postgres": 999}


def test_scripts_that_are_copied_are_made_executable(deployed: list[Image]) -> None:
    checked = 0
    for image in _with_recipe(deployed):
        for name, source in image.files.items():
            if isinstance(source, Path) and source.is_file() and source.read_bytes()[:2] == b"#!":
                (target,) = re.findall(rf"COPY (?:--\S+ )*(?:\S+ )*{name} (?:\S+ )*(\S+)\n", _dockerfile(image))
                path = f"{target}{name}" if target.endswith("/") else target
                assert f"chmod 755 {path}" in _dockerfile(image), f"{image.name}: {path}"
                checked += 1
    assert checked == 3


@pytest.mark.parametrize(
    ("artefacts", "changed"),
    [
        ({}, set()),
        ({"wheel": "w2"}, {"spark"}),
        ({"jars": "jars-2"}, {"spark-base", "spark", "spark-operator"}),
        ({"classes": b"c2"}, {"spark-base", "spark", "spark-operator"}),
    ],
    ids=["nothing", "the wheel", "jars", "Java classes"],
)
def test_another_artefact_changes_what_holds_it_and_leaves_the_rest(
    artefacts: dict[str, Any], changed: set[str], cache: Cache, deployed: list[Image], tmp_path: Path
) -> None:
    toolchain = _toolchain(tmp_path / "t", **artefacts)
    assert _changed(deployed, catalogue.images(cache, CONSOLE, toolchain, "amd64")) == changed


def test_a_users_image_is_the_spark_image_with_a_wheel_and_depends_on_both(
    cache: Cache, deployed: list[Image], tmp_path: Path
) -> None:
    assert catalogue.jobs(cache) == []
    wheels.keep(cache, wheel(tmp_path))
    (image,) = catalogue.jobs(cache)
    assert (image.name, image.parent) == ("job-clicks", "spark")
    (unpacked,) = (path for path in image.inputs.values() if isinstance(path, Path))
    assert (unpacked / "clicks" / "__init__.py").read_text() == "x = 1\n"
    spark = _keys(deployed)["spark"]
    wheels.keep(cache, wheel(tmp_path, files={"clicks/__init__.py": "x = 2\n"}))
    (newer,) = catalogue.jobs(cache)
    assert len({image.key(spark), image.key("another"), newer.key(spark)}) == 3
    assert catalogue.is_published(image.name)
    assert not catalogue.is_published("spark-base")


@pytest.mark.parametrize("what", ["architecture", "Debian", "day of Debian"])
def test_another_base_changes_every_image(
    what: str, cache: Cache, deployed: list[Image], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another day is how security fixes come: what is asked for is the same, what the mirror has is not."""
    (tmp_path / "day").write_text("2030-01-01\n")
    if what != "architecture":
        monkeypatch.setattr(rootfs, *(("DEBIAN", "trixie") if what == "Debian" else ("DAY", tmp_path / "day")))
    arch = "arm64" if what == "architecture" else "amd64"
    other = catalogue.images(cache, CONSOLE, _toolchain(tmp_path / "t"), arch)
    assert _changed(deployed, other) == {image.name for image in deployed}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other", "folder": "thing"},
        {"facts": {"key": "2"}},
        {"facts": {"other": "1"}},
        {"inputs": {"version": b"2"}},
        {"inputs": {"other": b"1"}},
    ],
    ids=str,
)
def test_a_key_depends_on_each_part(
    changes: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "FOLDER", tmp_path)
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "Dockerfile").write_text("FROM scratch\n")
    image = Image("thing", None, {"version": b"1"}, {"key": "1"})
    same = image.key("p")
    assert image.key("p") == same
    assert image.key("q") != same
    assert replace(image, **changes).key("p") != same  # type: ignore[arg-type]
    (tmp_path / "thing" / "Dockerfile").write_text("FROM scratch\nENV A=1\n")
    changed = image.key("p")
    (tmp_path / "thing" / "start").touch()
    assert len({same, changed, image.key("p")}) == 3


def test_what_python_compiled_in_a_folder_is_no_part_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(catalogue.FOLDER / "spark", tmp_path / "spark")
    monkeypatch.setattr(catalogue, "FOLDER", tmp_path)
    image = Image("spark")
    before, files = image.key("p"), image.files
    for name in ("__pycache__/job.cpython-311.pyc", "inner/__pycache__/note", "job.pyc"):
        path = tmp_path / "spark" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert image.key("p") == before
    assert image.files == files
    (tmp_path / "spark" / "inner" / "note").touch()
    assert image.key("p") != before


def test_what_comes_from_the_cache_is_told_apart_by_a_fact(every: list[Image]) -> None:
    # Folders of a hundred megabytes are not read for a key: the name of the artefact, or its digest, stands for them.
    for image in every:
        if any(isinstance(source, Path) for source in image.inputs.values()):
            assert image.facts, image.name


def test_the_control_plane_has_the_names_that_kubeadm_asks_for(cache: Cache) -> None:
    tags = {image.name: image.tag for image in catalogue.control_plane(cache, CONSOLE, "amd64")}
    of_kubernetes = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
    kubernetes = dict.fromkeys(of_kubernetes, f"v{versions.KUBERNETES}")
    others = {"etcd": versions.ETCD, "coredns": f"v{versions.COREDNS}", "pause": versions.PAUSE}
    storage = {"local-path-provisioner": f"v{versions.LOCAL_PATH_PROVISIONER}"}
    assert tags == {name: f"{LOCAL}/{name}:{tag}" for name, tag in (kubernetes | others | storage).items()}


def test_the_node_refers_to_images_that_it_brings(every: list[Image]) -> None:
    node = every[-1]
    brought = {image.tag for image in every if image.tag} | {"base:1"}

    def rendered(name: str) -> str:
        content = node.files[name]
        assert isinstance(content, bytes)
        assert b"{{" not in content
        return content.decode()

    cri = tomllib.loads(rendered("etc/containerd/config.toml"))["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] in brought
    storage = list(yaml.safe_load_all(rendered("kind/manifests/default-storage.yaml")))
    named = re.findall(r"^\s*image: (\S+)$", rendered("kind/manifests/default-storage.yaml"), re.MULTILINE)
    assert len(named) == 2
    assert set(named) <= brought
    (standard,) = [one for one in storage if one["kind"] == "StorageClass"]
    assert standard["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    helper = next(one for one in storage if one["kind"] == "ConfigMap")["data"]["helperPod.yaml"]
    assert yaml.safe_load(helper)["spec"]["containers"][0]["image"] == "base:1"
    assert node.files["kind/version"] == f"v{versions.KUBERNETES}".encode()


def test_a_template_with_a_value_that_is_not_given_is_refused() -> None:
    with pytest.raises(Exception, match="'pause' is undefined"):
        catalogue._render("node/etc/containerd/config.toml")


def test_what_has_to_be_built_is_announced(cache: Cache, tmp_path: Path) -> None:
    """Kubernetes takes ten minutes: who waits is told for what."""
    said = io.StringIO()
    catalogue.control_plane(cache, Console(stream=said), "amd64")
    for name in ("kubernetes", "etcd", "coredns", "pause", "local-path-provisioner"):
        assert f"{name} (Go build)" in said.getvalue()
    said = io.StringIO()
    catalogue.images(cache, Console(stream=said), _toolchain(tmp_path / "t"), "amd64")
    for name in ("minio (Go build)", "spark-operator (Go build)", "packages and jars of the images"):
        assert name in said.getvalue()
