"""What is there is not built again, and what it was made of tells whether it is there."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from infra.cluster.engine import Engine, EngineError
from infra.console import Console
from infra.images import catalogue, rootfs, wheels
from infra.images.builder import TAG_DIGITS, Builder, write_references
from infra.images.catalogue import Image
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import Toolchain
from tests.unit.cluster.fake_engine import FakeDocker
from tests.unit.images.fake_wheel import wheel

NO_TOOLCHAIN = cast(Toolchain, SimpleNamespace())


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
                "image?inspect*": f'for tag; do :; done; {name}; [ -f "$name" ] && cat "$name"',
                "image?ls*": f'cd {labels}; grep -lx "${{4##*=}}" * | tr _ /',
                "build*": f'while [ "$1" != --tag ]; do shift; done; tag="$2"; {name}; {built} >"$name"',
                "import*": f'for tag; do :; done; {name}; echo "${{3#*key=}}" >"$name"',
                "tag*": f'tag="$2"; {name}; from="$name"; tag="$3"; {name}; cp "$from" "$name"',
                "rmi*": f'tag="$2"; {name}; rm "$name"',
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


def _references(machine: Engine, cache: Cache, console: Console, prefix: str = "") -> dict[str, str]:
    return Builder(machine, cache, NO_TOOLCHAIN, console, prefix).published()


@pytest.mark.usefixtures("folder")
def test_images_are_built_parents_first_and_only_once(
    machine: Engine, cache: Cache, console: Console, store: FakeStore
) -> None:
    references = _references(machine, cache, console)
    assert set(references) == {"tools", "spark"}
    parents = [call.split("PARENT=")[1].split()[0] for call in store.docker.calls if "PARENT=" in call]
    assert parents[1] == references["tools"]
    assert store.made() == ["base", "tools", "spark"]
    assert _references(machine, cache, console) == references
    assert store.made() == []


@pytest.mark.parametrize(("changed", "built"), [("tools", ["tools", "spark"]), ("spark", ["spark"])])
def test_a_change_builds_its_image_and_those_upon_it_under_new_names(
    *,
    changed: str,
    built: list[str],
    folder: Path,
    machine: Engine,
    cache: Cache,
    console: Console,
    store: FakeStore,
) -> None:
    before = _references(machine, cache, console)
    store.made()
    with (folder / changed / "Dockerfile").open("a") as out:
        out.write("ENV A=1\n")
    after = _references(machine, cache, console)
    assert store.made() == built
    assert {name for name in after if after[name] != before[name]} == set(built)


@pytest.mark.usefixtures("folder")
def test_an_image_that_somebody_removed_or_another_of_its_name_is_built_again(
    machine: Engine, cache: Cache, console: Console, store: FakeStore
) -> None:
    spark = _references(machine, cache, console)["spark"]
    store.made()
    (store.labels / spark).unlink()
    assert _references(machine, cache, console)["spark"] == spark
    assert store.made() == ["spark"]
    (store.labels / spark).write_text("of another content\n")
    assert _references(machine, cache, console)["spark"] == spark
    assert store.made() == ["spark"]


@pytest.mark.usefixtures("folder")
def test_packages_of_another_day_are_another_name(
    machine: Engine, cache: Cache, console: Console, store: FakeStore
) -> None:
    """Nothing that was asked for differs; the engine lost its images, or it is another machine."""
    before = _references(machine, cache, console)
    store.packages.write_text("openssl\t2\n")
    assert _references(machine, cache, console) == before, "what is there is what was built"
    for label in store.labels.iterdir():
        label.unlink()
    after = _references(machine, cache, console)
    assert not {*before.values()} & {*after.values()}


@pytest.mark.usefixtures("folder")
def test_a_build_that_was_interrupted_before_its_name_is_no_image(
    machine: Engine, cache: Cache, console: Console, store: FakeStore
) -> None:
    references = _references(machine, cache, console)
    spark = store.labels / references["spark"]
    spark.rename(store.labels / "effectively-once-spark:building")
    store.made()
    assert _references(machine, cache, console) == references
    assert store.made() == ["spark"]
    assert not [path for path in store.labels.iterdir() if path.name.endswith("building")]


@pytest.mark.usefixtures("folder")
def test_an_image_that_is_there_is_pushed_and_not_built_again(
    machine: Engine, cache: Cache, console: Console, store: FakeStore
) -> None:
    here = _references(machine, cache, console)
    store.made()
    prefix = "registry.example/team/"
    assert _references(machine, cache, console, prefix) == {name: f"{prefix}{tag}" for name, tag in here.items()}
    assert store.made() == []


@pytest.mark.usefixtures("folder", "store")
def test_only_what_a_deployment_names_is_called_after_the_registry(
    machine: Engine, cache: Cache, console: Console, docker: FakeDocker
) -> None:
    references = _references(machine, cache, console, "registry.example/team/")
    assert all(reference.startswith("registry.example/team/effectively-once-") for reference in references.values())
    assert all(len(reference.rpartition(":")[2]) == TAG_DIGITS for reference in references.values())
    (imported,) = [call for call in docker.calls if call.startswith("import")]
    assert imported.split()[-1] == "effectively-once-base:building"


def test_a_users_wheel_gets_an_image_upon_spark_which_is_published_with_the_others(
    *, folder: Path, machine: Engine, cache: Cache, console: Console, store: FakeStore, tmp_path: Path
) -> None:
    (folder / "job").mkdir()
    (folder / "job" / "Dockerfile").write_text("ARG PARENT\nFROM ${PARENT}\nCOPY wheel /w\n")
    wheels.keep(cache, wheel(tmp_path))
    references = _references(machine, cache, console, "registry.example/team/")
    assert set(references) == {"tools", "spark", "job-clicks"}
    assert references["job-clicks"].startswith("registry.example/team/effectively-once-job-clicks:")
    (built,) = [call for call in store.docker.calls if "--tag effectively-once-job-clicks" in call]
    assert f"PARENT={references['spark']}" in built
    store.made()
    assert _references(machine, cache, console, "registry.example/team/") == references
    assert store.made() == []


@pytest.mark.usefixtures("store")
def test_the_node_brings_the_base_and_the_control_plane_saved_once(
    *,
    machine: Engine,
    cache: Cache,
    console: Console,
    docker: FakeDocker,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "node").mkdir()
    (folder / "node" / "Dockerfile").write_text("ARG PARENT\nFROM ${PARENT}\n")
    pause = Image("pause", None, {"Dockerfile": b"FROM scratch\n"}, folder="none", tag="effectively-once.local/pause:1")
    monkeypatch.setattr(catalogue, "control_plane", lambda *_: [pause])
    monkeypatch.setattr(catalogue, "images", lambda *_: pytest.fail("a node needs nothing that a deployment does"))
    given: list[tuple[Path, str]] = []

    def node(_cache: Cache, _arch: str, preloaded: Path, base: str) -> Image:
        given.append((preloaded, base))
        return Image("node", "base", facts={"preloaded": preloaded.parent.name})

    monkeypatch.setattr(catalogue, "node", node)
    reference = Builder(machine, cache, NO_TOOLCHAIN, console).node()
    preloaded, base = given[0]
    assert preloaded.read_text().split()[3:] == [base, "effectively-once.local/pause:1"]
    assert Builder(machine, cache, NO_TOOLCHAIN, console).node() == reference
    assert len([call for call in docker.calls if call.startswith("save")]) == 1


@pytest.mark.usefixtures("store")
def test_sizes_are_numbers_of_bytes(machine: Engine, cache: Cache, console: Console) -> None:
    builder = Builder(machine, cache, NO_TOOLCHAIN, console)
    assert builder.sizes({"spark": "spark:1"}) == {"spark": 2 * 2**20}


def test_a_push_that_the_registry_refuses_is_reported_with_what_to_do(
    machine: Engine, cache: Cache, console: Console, said: io.StringIO, docker: FakeDocker
) -> None:
    docker.answers({"*bad:1": "echo 'denied' >&2; exit 1"})
    builder = Builder(machine, cache, NO_TOOLCHAIN, console)
    builder.push(["good:1"])
    with pytest.raises(EngineError, match="bad:1 was not pushed: denied; log in with `docker login`"):
        builder.push(["bad:1", "good:2"])
    assert docker.calls == ["push good:1", "push bad:1"]
    assert "push good:1" in said.getvalue()


def test_references_are_written_only_when_they_say_something_else(tmp_path: Path) -> None:
    path = tmp_path / "images.json"
    write_references(path, {"b": "2", "a": "1"})
    first = path.stat()
    write_references(path, {"a": "1", "b": "2"})
    assert path.stat().st_mtime_ns == first.st_mtime_ns
    write_references(path, {"a": "1"})
    assert "2" not in path.read_text()
