"""A program on PATH is taken when it answers, is of a version that will do, and has what it needs beside it."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from infra.console import Console
from infra.toolchain import go_tools, programs
from infra.toolchain.cache import Cache
from infra.toolchain.programs import PROGRAMS, Program, on_path, version_in
from infra.versions import KUBERNETES, PULUMI, PULUMI_KUBERNETES
from tests.unit.toolchain.fake_programs import program

BY_NAME = {one.name: one for one in PROGRAMS}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Client Version: v1.36.3\nKustomize Version: v5.7.1", (1, 36, 3)),
        ("kind v0.33.0 go1.26.8 linux/amd64", (0, 33, 0)),
        ("v3.259.0\n", (3, 259, 0)),
        ("v4.3.1+g1234567", (4, 3, 1)),
        ("3.259.0-dev.0", (3, 259, 0)),
        ("error: unknown flag: --client", None),
        ("", None),
    ],
)
def test_versions_are_read_from_answers(text: str, version: tuple[int, ...] | None) -> None:
    assert version_in(text) == version


@pytest.mark.parametrize(
    ("name", "version", "suits"),
    [
        ("kubectl", KUBERNETES, True),
        ("kubectl", "1.35.0", True),
        ("kubectl", "1.37.9", True),
        ("kubectl", "1.34.9", False),
        ("kubectl", "1.38.0", False),
        ("kind", "0.27.0", True),
        ("kind", "0.26.9", False),
        ("pulumi", PULUMI, True),
        ("pulumi", "3.199.0", False),
        ("pulumi-resource-kubernetes", PULUMI_KUBERNETES, True),
        ("pulumi-resource-kubernetes", "4.24.1", False),
        ("helm", "3.14.0", True),
        ("helm", "2.17.0", False),
    ],
)
def test_a_version_on_path_is_taken_only_when_it_will_do(name: str, version: str, suits: bool, tmp_path: Path) -> None:
    there = program(tmp_path, name, f"echo 'v{version}'")
    if beside := BY_NAME[name].beside:
        program(tmp_path, beside, "")
    assert on_path(BY_NAME[name], str(tmp_path)) == (there if suits else None)


def test_it_is_asked_the_way_it_understands(tmp_path: Path) -> None:
    for one in PROGRAMS:
        program(tmp_path, one.name, f'[ "$*" = "{" ".join(one.ask)}" ] && echo v99.99.99 >&2')
        (tmp_path / (one.beside or one.name)).touch(mode=0o755)
        loose = Program(one.name, one.tool, one.ask, lambda version: version == (99, 99, 99), one.beside)
        assert on_path(loose, str(tmp_path)), one.name


@pytest.mark.parametrize("script", ["exit 0", "echo v0.33.0; exit 1", "echo no version here", "kill -9 $$"])
def test_one_that_does_not_answer_is_not_taken(script: str, tmp_path: Path) -> None:
    program(tmp_path, "kind", script)
    assert on_path(BY_NAME["kind"], str(tmp_path)) is None


def test_one_that_cannot_be_started_is_not_taken(tmp_path: Path) -> None:
    program(tmp_path, "kind", "echo v0.33.0").write_text("#!/no/such/interpreter\n")
    assert on_path(BY_NAME["kind"], str(tmp_path)) is None


def test_one_that_hangs_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "kind", "exec sleep 600")
    run = subprocess.run
    deadlines = []

    def hasty(*words: object, timeout: float, **options: object) -> object:
        deadlines.append(timeout)
        return run(*words, timeout=0.2, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", hasty)
    assert on_path(BY_NAME["kind"], str(tmp_path)) is None
    assert deadlines == [30]


def test_pulumi_without_its_language_host_beside_it_is_of_no_use(tmp_path: Path) -> None:
    program(tmp_path, "pulumi", f"echo v{PULUMI}")
    assert on_path(BY_NAME["pulumi"], str(tmp_path)) is None
    program(tmp_path / "elsewhere", "pulumi-language-python", "")
    assert on_path(BY_NAME["pulumi"], f"{tmp_path}:{tmp_path / 'elsewhere'}") is None
    program(tmp_path, "pulumi-language-python", "")
    assert on_path(BY_NAME["pulumi"], str(tmp_path)) == tmp_path / "pulumi"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the tools that were asked to be built, in order; what is built is a folder of its name."""
    names: list[str] = []

    def build(_cache: Cache, tool: go_tools.GoTool, *_: object) -> Path:
        names.append(tool.name)
        return tmp_path / "built" / tool.name

    monkeypatch.setattr(go_tools, "build", build)
    return names


@pytest.fixture
def quiet(tmp_path: Path) -> Console:
    return Console(stream=io.StringIO())


def test_what_path_has_is_not_built(builds: list[str], quiet: Console, tmp_path: Path) -> None:
    kind = program(tmp_path / "bin", "kind", "echo v0.33.0")
    found = programs.find_programs(Cache(tmp_path / "cache"), quiet, str(tmp_path / "bin"))
    assert found["kind"] == kind
    assert builds == ["kubectl", "pulumi", "pulumi-kubernetes", "helm"]
    assert found["kubectl"] == tmp_path / "built" / "kubectl" / "kubectl"
    assert set(found) == set(BY_NAME)


def test_a_deployment_to_a_cluster_that_is_there_builds_no_cluster(
    builds: list[str], quiet: Console, tmp_path: Path
) -> None:
    found = programs.find_programs(Cache(tmp_path / "cache"), quiet, str(tmp_path), programs.DEPLOYING)
    assert builds == ["kubectl", "pulumi", "pulumi-kubernetes"]
    assert set(found) == programs.DEPLOYING
    assert [*go_tools.KUBECTL_TOOL.binaries] == ["kubectl"], "no kubelet, no API server"
    helm = program(tmp_path / "bin", "helm", "echo v4.3.1")
    there = programs.find_programs(Cache(tmp_path / "cache"), quiet, str(tmp_path / "bin"), programs.DEPLOYING)
    assert there["helm"] == helm, "what is there is taken all the same"


def test_kubectl_of_a_node_that_was_built_is_taken(
    builds: list[str], quiet: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_tools, "is_built", lambda _cache, tool, *_: tool.name == "kubernetes")
    found = programs.find_programs(Cache(tmp_path / "cache"), quiet, str(tmp_path), {"kubectl"})
    assert builds == ["kubernetes"]
    assert found == {"kubectl": tmp_path / "built" / "kubernetes" / "kubectl"}


def test_kubernetes_is_built_even_where_kubectl_is_there_for_the_node_needs_it(
    builds: list[str], quiet: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "kubectl", f"echo v{KUBERNETES}")
    program(tmp_path / "bin", "helm", "echo v4.3.1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    programs.build_all(Cache(tmp_path / "cache"), quiet)
    assert "kubernetes" in builds
    assert "helm" not in builds
    assert set(builds) == {tool.name for tool in go_tools.ALL} - {"helm"}


def test_a_build_is_announced_with_its_name_and_what_is_built_is_silent(
    builds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.StringIO()
    monkeypatch.setattr(go_tools, "is_built", lambda *_: False)
    programs.provide(Cache(tmp_path), Console(stream=said), go_tools.KIND_TOOL)
    assert "kind (Go build)" in said.getvalue()
    monkeypatch.setattr(go_tools, "is_built", lambda *_: True)
    silence = io.StringIO()
    programs.provide(Cache(tmp_path), Console(stream=silence), go_tools.KIND_TOOL)
    assert silence.getvalue() == ""
    assert builds == ["kind", "kind"]
