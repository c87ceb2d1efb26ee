"""A tool is built anew when anything it is made of changes, and is found again when nothing did."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from infra.toolchain import go_tools, minio
from infra.toolchain.cache import Cache
from infra.toolchain.command import ToolchainError
from infra.toolchain.go_tools import GoTool, key, machine_arch
from tests.unit.toolchain.fake_programs import program

# Writes what it was asked into every binary; `go version` satisfies every go.mod.
FAKE_GO = """
case "$1" in version) echo "go version go1.99.0 linux/amd64"; exit ;; env) echo local; exit ;; esac
while [ $# -gt 0 ]; do
  case "$1" in -o) out="$2"; shift ;; -ldflags|-tags) shift ;; -*|build) ;; *) packages="$packages $1" ;; esac
  shift
done
for package in $packages; do
  case "$package" in .) package=own ;; */v[0-9]*) package=$(dirname "$package") ;; esac
  echo "$PWD $GOOS $GOARCH $CGO_ENABLED" >"$out$(basename "$package")"
done
"""
BINARIES = {"thing": ".", "server": "go.example/etcd/server/v3", "helper": "helper.example/v10", "safe": "x.org/vault"}
BROKEN_GO = FAKE_GO.replace("while", "echo 'no such host' >&2; exit 1\nwhile", 1)


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoTool:
    """A wrapper module with a main of its own, in a folder where it may be changed."""
    monkeypatch.setattr(go_tools, "WRAPPERS", tmp_path / "wrappers")
    folder = tmp_path / "wrappers" / "thing"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module effectively-once/toolchain/own\n\ngo 1.26.0\n")
    (folder / "go.sum").write_text("a v1 h1:x=\n")
    (folder / "main.go").write_text("package main\n")
    return GoTool("thing", BINARIES, 1)


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go"])
def test_a_changed_file_of_the_wrapper_gives_another_key(tool: GoTool, name: str) -> None:
    before = key(tool, "amd64")
    assert key(tool, "amd64") == before
    with (tool.folder / name).open("a") as out:
        out.write("// changed\n")
    assert key(tool, "amd64") != before


def test_a_lost_go_sum_and_another_source_file_give_another_key(tool: GoTool) -> None:
    before = key(tool, "amd64")
    (tool.folder / "more.go").write_text("package main\n")
    with_more = key(tool, "amd64")
    (tool.folder / "go.sum").unlink()
    assert len({before, with_more, key(tool, "amd64")}) == 3


@pytest.mark.parametrize(
    "changed",
    [{"stamps": {"a.Version": "v2"}}, {"tags": "selinux"}, {"binaries": {**BINARIES, "helper": "x.org/other"}}],
)
def test_stamps_tags_and_packages_are_part_of_the_key(tool: GoTool, changed: dict[str, object]) -> None:
    assert key(replace(tool, **changed), "amd64") != key(tool, "amd64")  # type: ignore[arg-type]


def test_architectures_have_keys_and_artefacts_of_their_own(tool: GoTool, tmp_path: Path) -> None:
    other = "arm64" if machine_arch() == "amd64" else "amd64"
    assert key(tool, "amd64") != key(tool, "arm64")
    cache = Cache(tmp_path / "cache")
    assert not go_tools.is_built(cache, tool)
    cache.get("thing", key(tool, machine_arch()), lambda folder: (folder / "thing").touch())
    assert go_tools.is_built(cache, tool)
    assert not go_tools.is_built(cache, tool, other)


def test_the_embedded_demo_and_the_images_share_one_minio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin', 'go', FAKE_GO).parent}:/usr/bin:/bin")
    cache = Cache(tmp_path / "cache")
    path = minio.build_minio(cache, {})
    assert go_tools.is_built(cache, go_tools.MINIO)
    assert go_tools.build(cache, go_tools.MINIO) == path.parent


def test_a_build_names_its_binaries_and_is_static_for_the_architecture(
    tool: GoTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin', 'go', FAKE_GO).parent}:/usr/bin:/bin")
    made = go_tools.build(Cache(tmp_path / "cache"), tool, "arm64")
    assert {path.name for path in made.iterdir() if not path.name.startswith(".")} == {*BINARIES}
    for name in BINARIES:
        assert (made / name).read_text() == f"{tool.folder} linux arm64 0\n"
    assert go_tools.build(Cache(tmp_path / "cache"), tool, "arm64") == made


def test_a_failed_build_leaves_nothing_that_looks_built(
    tool: GoTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin', 'go', BROKEN_GO).parent}:/usr/bin:/bin")
    cache = Cache(tmp_path / "cache")
    with pytest.raises(ToolchainError, match=r"(?s)thing: .*GOPROXY.*no such host"):
        go_tools.build(cache, tool)
    assert not go_tools.is_built(cache, tool)


def test_a_minio_that_cannot_be_built_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin', 'go', BROKEN_GO).parent}:/usr/bin:/bin")
    with pytest.raises(ToolchainError, match=rf"\(`go env GOPROXY`\), or set {minio.OVERRIDE} to a minio binary\n"):
        minio.build_minio(Cache(tmp_path / "cache"), {})


def test_the_list_of_all_tools_has_each_wrapper_once() -> None:
    names = [tool.name for tool in go_tools.ALL]
    assert len(names) == len(set(names))
    assert set(names) == {path.name for path in go_tools.WRAPPERS.iterdir() if path.is_dir()}


def test_sources_of_a_wrapper_lie_where_a_copy_of_the_checkout_has_them(tmp_path: Path) -> None:
    # The key is made of contents: a second checkout finds what the first one built.
    tool = go_tools.PAUSE_TOOL
    before = key(tool, "amd64")
    shutil.copytree(tool.folder, tmp_path / "pause")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(go_tools, "WRAPPERS", tmp_path)
        assert key(tool, "amd64") == before
