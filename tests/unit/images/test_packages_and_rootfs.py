"""What the images get from package indexes: of their own platform, pinned by hash, and the same as everybody's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from infra.bootstrap import CHECKOUT
from infra.cluster import engine
from infra.cluster.engine import EngineError
from infra.console import Console
from infra.images import packages, rootfs
from infra.images.contents import read_hashes
from infra.toolchain import command, go_tools
from infra.toolchain.cache import Cache
from infra.versions import DEBIAN
from tests.unit.toolchain.fake_programs import program

BOOKWORM_GLIBC = (2, 36)


def _names(path: Path) -> set[str]:
    lines = (re.sub(r"\[.*\]", "", line).strip() for line in path.read_text().splitlines())
    return {line for line in lines if line and not line.startswith("#")}


def test_every_package_of_the_images_is_that_which_tests_run_with_by_version_and_hash() -> None:
    ours, images = read_hashes(CHECKOUT / "requirements.lock"), read_hashes(packages.LOCK)
    assert len(images) == len(re.findall(r"^[^\s#].*==", packages.LOCK.read_text(), re.MULTILINE)) > 15
    for pinned, hashes in images.items():
        assert hashes, pinned
        assert {*hashes} <= {*ours[pinned]}, pinned


def test_the_lock_has_all_that_is_asked_for_and_that_the_wheel_imports() -> None:
    asked, locked = _names(packages.LOCK.with_name("requirements.in")), {name for name, _ in read_hashes(packages.LOCK)}
    assert asked <= locked
    project = tomllib.loads((CHECKOUT / "pipelines" / "pyproject.toml").read_text())["project"]
    wheel = {re.split(r"[<>=~! \[]", one)[0] for one in project["dependencies"]}
    # Spark's own files are copied into the image; of its dependencies the bridge to Java is needed.
    assert wheel - {"pyspark"} <= asked
    assert "py4j" in asked
    assert "pyspark" not in locked


def test_there_is_a_platform_for_every_architecture_and_debian_can_load_its_wheels() -> None:
    assert set(packages.PLATFORM) == set(go_tools.GOARCH.values())
    for arch, name in packages.PLATFORM.items():
        machine, major, minor = re.fullmatch(r"(\w+?)-manylinux_(\d+)_(\d+)", name).groups()  # type: ignore[union-attr]
        assert go_tools.GOARCH[machine] == arch
        assert (int(major), int(minor)) <= BOOKWORM_GLIBC


def test_packages_are_installed_for_the_images_python_from_checked_wheels_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[list[str]] = []

    def run(_what: str, argv: list[object], **_: object) -> None:
        runs.append([str(word) for word in argv])
        Path(runs[-1][runs[-1].index("--target") + 1]).mkdir()

    monkeypatch.setattr(command, "run", run)
    cache = Cache(tmp_path / "cache")
    one = packages.install(cache, "amd64")
    assert packages.install(cache, "amd64") == one
    assert (one / "packages").is_dir()
    assert packages.install(cache, "arm64") != one
    assert len(runs) == 2
    for words, platform in zip(runs, ("x86_64", "aarch64"), strict=True):
        assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(words)
        assert words[words.index("--python-version") + 1] == packages.PYTHON
        assert words[words.index("--python-platform") + 1].startswith(platform)


def test_an_architecture_that_there_is_none_for_is_no_half_built_artefact(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="riscv64"):
        packages.install(Cache(tmp_path / "cache"), "riscv64")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.name.startswith("image-packages")]


def test_the_root_file_system_is_made_once_for_each_architecture(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'for last; do :; done; echo "$*" >"$last"; echo run >>{tmp_path / "runs"}'
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin', 'mmdebstrap', script).parent}:/usr/bin:/bin")
    cache = Cache(tmp_path / "cache")
    made = rootfs.rootfs(cache, "arm64", console)
    assert rootfs.rootfs(cache, "arm64", console) == made
    said = made.read_text()
    assert "--architectures=arm64" in said
    assert DEBIAN in said.split()
    assert all(name in said for name in ("tini", "ca-certificates"))
    assert rootfs.rootfs(cache, "amd64", console) != made
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


@pytest.mark.parametrize("name", ["DEBIAN", "PACKAGES", "LEFT_OUT"])
def test_the_root_file_system_is_made_anew_when_what_it_is_made_of_changes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rootfs.key("amd64")
    monkeypatch.setattr(rootfs, name, "other" if name == "DEBIAN" else ("other",))
    assert rootfs.key("amd64") != before


def test_another_day_makes_the_root_file_system_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs, "DAY", tmp_path / "base" / "debian.date")
    rootfs.renew()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d\n", rootfs.DAY.read_text())
    today = rootfs.key("amd64")
    rootfs.DAY.write_text("2000-01-01\n")
    assert rootfs.key("amd64") != today


def test_without_mmdebstrap_and_with_installing_refused_it_says_so(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NO_INSTALL", "1")
    monkeypatch.setattr(engine, "install_packages", lambda *_: pytest.fail("installed"))
    with pytest.raises(EngineError, match="mmdebstrap is needed, it is not here, and NO_INSTALL is set"):
        rootfs.rootfs(Cache(tmp_path / "cache"), "amd64", console)
