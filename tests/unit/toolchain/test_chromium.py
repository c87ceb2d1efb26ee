"""Which Chromium is taken, and what becomes of a machine without one; apt and dpkg are stand-ins."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.toolchain.cache import Cache
from infra.toolchain.chromium import ensure_chromium, find_chromium
from infra.toolchain.command import ToolchainError

APT = """#!/bin/sh
echo "apt $*" >> "$SAID"
case "$*" in
  *--print-uris*) echo "'http://mirror/chromium.deb' chromium_1_amd64.deb 1 SHA256:0"; echo "a note"; exit 0;;
esac
for word in "$@"; do case "$word" in Dir::Cache::archives=*) touch "${word#*=}/chromium_1_amd64.deb";; esac; done
"""
DPKG = """#!/bin/sh
mkdir -p "$3/usr/lib/chromium" "$3/usr/lib/x86_64-linux-gnu"
printf '#!/bin/sh\\necho "$LD_LIBRARY_PATH $*"\\n' > "$3/usr/lib/chromium/chromium-headless-shell"
chmod +x "$3/usr/lib/chromium/chromium-headless-shell"
"""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make a PATH of some programs, and of what a shell needs."""

    def make(**programs: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in programs.items():
            (folder / name.replace("_", "-")).write_text(text)
            (folder / name.replace("_", "-")).chmod(0o755)
        for needed in ("sh", "touch", "mkdir", "chmod", "dirname", "readlink", "echo"):
            (folder / needed).symlink_to(f"/bin/{needed}")
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setenv("SAID", str(tmp_path / "said"))
        monkeypatch.delenv("CHROMIUM", raising=False)
        return folder

    return make


def test_the_machines_own_is_taken_first(path: Callable[..., Path], cache: Cache) -> None:
    folder = path(chromium="")
    assert ensure_chromium(cache) == str(folder / "chromium")
    assert find_chromium({"CHROMIUM": "/named", "PATH": str(folder)}, cache.root) == "/named"


def test_debians_is_unpacked_once_and_finds_its_libraries(
    path: Callable[..., Path], cache: Cache, tmp_path: Path
) -> None:
    path(apt_get=APT, dpkg_deb=DPKG)
    assert find_chromium(cache=cache.root) is None
    made = ensure_chromium(cache)
    said = subprocess.run([made, "--headless"], capture_output=True, text=True, check=True).stdout.split()
    libraries = Path(made).parent / "root" / "usr" / "lib" / "x86_64-linux-gnu"
    assert said == [f"{libraries}:{libraries}/pulseaudio", "--headless"]
    assert not (Path(made).parent / "packages").exists()
    asked = (tmp_path / "said").read_text()
    assert ensure_chromium(cache) == find_chromium(cache=cache.root) == made
    assert (tmp_path / "said").read_text() == asked, "apt was asked again"


def test_an_unfinished_one_is_none(path: Callable[..., Path], cache: Cache) -> None:
    path()
    (cache.root / "chromium-0123").mkdir(parents=True)
    assert find_chromium(cache=cache.root) is None


def test_without_apt_it_says_what_to_do(path: Callable[..., Path], cache: Cache) -> None:
    path()
    with pytest.raises(
        ToolchainError, match=r"there is no apt-get here; have a Chromium on PATH.*or name it in CHROMIUM"
    ):
        ensure_chromium(cache)


@pytest.mark.parametrize("fails", ["--print-uris", "--download-only"])
def test_a_mirror_that_is_not_reached_is_told_of_and_nothing_is_left(
    path: Callable[..., Path], cache: Cache, fails: str
) -> None:
    path(
        apt_get=APT.replace("\ncase", f'\ncase "$*" in *{fails}*) echo unreachable >&2; exit 100;; esac\ncase', 1),
        dpkg_deb=DPKG,
    )
    with pytest.raises(ToolchainError, match=r"(?s)unreachable.*apt-get update|apt-get update.*unreachable"):
        ensure_chromium(cache)
    assert find_chromium(cache=cache.root) is None
    assert not list(cache.root.glob("chromium-*"))
