"""A jar has the bytes that the lock says, when it is resolved and each time before it is used, or it is refused."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from infra.toolchain import jar_lock, jars
from infra.toolchain.cache import COMPLETE, Cache
from infra.toolchain.command import ToolchainError
from infra.toolchain.prepare import CHECKOUT
from tests.unit.toolchain.fake_programs import program

SPACE = "{http://maven.apache.org/POM/4.0.0}"
POMS = sorted(pom for top in ("infra", "tests") for pom in (CHECKOUT / top).rglob("pom.xml"))
# Lays the jars out that $SERVED has, as the plugin does.
MAVEN = """
for word; do case "$word" in -DoutputDirectory=*) out="${word#*=}" ;; esac; done
case "$*" in *:copy-dependencies*-Dmdep.useRepositoryLayout=true*) mkdir -p "$out" && cp -r "$SERVED"/. "$out" ;; esac
"""
ONE, NATIVE = "org/example/one/1.0/one-1.0.jar", "org/example/two-api/2.1-x/two-api-2.1-x-linux.jar"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two jars."""
    for name in (ONE, NATIVE):
        (tmp_path / "served" / name).parent.mkdir(parents=True)
        (tmp_path / "served" / name).write_bytes(b"bytes of " + name.encode())
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin', 'mvn', MAVEN).parent}:/usr/bin:/bin")
    monkeypatch.setenv("SERVED", str(tmp_path / "served"))
    return tmp_path / "served"


@pytest.fixture
def pom(tmp_path: Path, served: Path) -> Path:
    """A pom with a lock of what is served."""
    pom = tmp_path / "infra" / "own" / "pom.xml"
    pom.parent.mkdir(parents=True)
    pom.write_text("<project/>")
    jars.write_locks(Cache(tmp_path / "cache"), tmp_path)
    return pom


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def _change(path: Path) -> None:
    """Flip one bit of the middle byte."""
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def test_a_lock_has_a_line_of_checksum_and_coordinates_for_each_jar(pom: Path, served: Path) -> None:
    head, *lines = pom.with_name("jars.lock").read_text().splitlines()
    assert "make lock" in head
    assert lines == [
        f"{hashlib.sha256((served / ONE).read_bytes()).hexdigest()}  org.example:one:1.0",
        f"{hashlib.sha256((served / NATIVE).read_bytes()).hexdigest()}  org.example:two-api:2.1-x:linux",
    ]


def test_jars_as_locked_are_a_class_path(pom: Path, cache: Cache) -> None:
    folder = jars.resolve_pom(cache, "own", pom)
    assert {path.name for path in folder.iterdir()} == {"one-1.0.jar", "two-api-2.1-x-linux.jar", COMPLETE}
    assert jars.resolve_pom(cache, "own", pom) == folder


def test_a_jar_that_maven_brings_with_another_byte_is_refused_and_not_kept(
    pom: Path, cache: Cache, served: Path
) -> None:
    _change(served / ONE)
    with pytest.raises(ToolchainError, match=r"(?s)jars\.lock.*org\.example:one:1\.0 has sha256.*~/\.m2") as refused:
        jars.resolve_pom(cache, "own", pom)
    assert "two-api" not in str(refused.value)
    assert not [*cache.root.glob("jars-own-*/*.jar")]
    _change(served / ONE)
    assert jars.resolve_pom(cache, "own", pom).is_dir()


def test_a_jar_of_the_cache_with_another_byte_is_refused_before_it_is_used(pom: Path, cache: Cache) -> None:
    folder = jars.resolve_pom(cache, "own", pom)
    _change(folder / "one-1.0.jar")
    with pytest.raises(ToolchainError, match=rf"(?s)one-1\.0\.jar has sha256.*delete {folder},"):
        jars.resolve_pom(cache, "own", pom)


@pytest.mark.parametrize("where", ["served", "kept"])
@pytest.mark.parametrize("change", ["one more", "one less"])
def test_a_jar_too_many_or_too_few_is_refused(pom: Path, cache: Cache, served: Path, where: str, change: str) -> None:
    found = served / ONE if where == "served" else jars.resolve_pom(cache, "own", pom) / "one-1.0.jar"
    if change == "one more":
        more = found.parents[2] / "more" / "1" / "more-1.jar" if where == "served" else found.with_name("more-1.jar")
        more.parent.mkdir(parents=True, exist_ok=True)
        more.write_bytes(found.read_bytes())
    else:
        found.unlink()
    with pytest.raises(ToolchainError, match="more.*is not in the lock" if change == "one more" else "one.*is missing"):
        jars.resolve_pom(cache, "own", pom)


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read"), ("0a  a:b:1\n", "no checksum and coordinates"), (f"{'0' * 64}  a:b\n", "a:b")],
)
def test_without_a_lock_that_can_be_read_nothing_is_used(pom: Path, cache: Cache, text: str | None, said: str) -> None:
    lock = pom.with_name("jars.lock")
    lock.unlink()
    if text is not None:
        lock.write_text(text)
    with pytest.raises(ToolchainError, match=f"{lock}.*{said}.*`make lock`"):
        jars.resolve_pom(cache, "own", pom)


def test_no_lock_takes_a_release_that_has_changed_unless_its_line_is_taken_out(
    pom: Path, cache: Cache, served: Path, tmp_path: Path
) -> None:
    lock = pom.with_name("jars.lock")
    before = lock.read_text()
    _change(served / ONE)
    with pytest.raises(ToolchainError, match=r"org\.example:one:1\.0 has sha256 .* a release does not change"):
        jars.write_locks(cache, tmp_path)
    assert lock.read_text() == before
    lock.write_text("".join(line for line in before.splitlines(keepends=True) if ":one:" not in line))
    jars.write_locks(cache, tmp_path)
    assert lock.read_text() != before
    assert jars.resolve_pom(cache, "own", pom).is_dir()


@pytest.mark.parametrize("pom", POMS, ids=[pom.parent.name for pom in POMS])
def test_a_committed_lock_is_that_of_its_pom(pom: Path) -> None:
    """Every jar that the pom names is in it at that version, so a pom is not changed without its lock."""
    root = ET.parse(pom).getroot()  # noqa: S314 - our own file
    properties = {one.tag.removeprefix(SPACE): one.text or "" for one in root.find(f"{SPACE}properties") or ()}
    asked = set()
    for dependency in root.iter(f"{SPACE}dependency"):
        words = [str(dependency.findtext(f"{SPACE}{name}")) for name in ("groupId", "artifactId", "version")]
        asked.add(re.sub(r"\$\{(.+?)\}", lambda found: properties[found[1]], ":".join(words)))
    locked = jar_lock.read(pom.with_name(jar_lock.NAME))
    assert asked
    assert asked <= {one.coordinates for one in locked}
    assert len({one.file for one in locked}) == len(locked), "they lie in one folder"
