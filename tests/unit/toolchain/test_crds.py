"""The operator's resource definitions are generated once, by the operator's own generator and Go."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.toolchain import crds, go_tools
from infra.toolchain.cache import Cache
from infra.toolchain.command import ToolchainError
from infra.toolchain.crds import resource_definitions
from infra.versions import SPARK_OPERATOR_CRDS
from tests.unit.toolchain.fake_programs import program

GO = 'case "$1" in version) echo "go version go1.99.0 linux/amd64" ;; env) echo local ;; esac'
# The generator needs `go` on its PATH, and is run where the operator's go.mod is.
GENERATOR = """
command -v go >/dev/null && [ -f go.mod ] || exit 3
for word; do case "$word" in output:crd:dir=*) out="${word#output:crd:dir=}" ;; *) said="$said $word" ;; esac; done
mkdir -p "$out" && echo "kind: CustomResourceDefinition #$said" >"$out/one.yaml" && echo run >>"$COUNT"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    program(tmp_path / "operator", "controller-gen", GENERATOR)
    monkeypatch.setattr(go_tools, "build", lambda *_: tmp_path / "operator")
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin', 'go', GO).parent}:/usr/bin:/bin")
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    return Cache(tmp_path / "cache")


def test_definitions_are_generated_once_from_the_operators_types(cache: Cache, tmp_path: Path) -> None:
    folder = resource_definitions(cache)
    (made,) = folder.glob("*.yaml")
    assert f"paths={crds.TYPES}" in made.read_text()
    assert made.read_text().startswith(f"{SPARK_OPERATOR_CRDS}\nkind: "), "a stack asks of which version they are"
    assert resource_definitions(cache) == folder
    assert (tmp_path / "count").read_text() == "run\n"


def test_another_generator_setting_gives_other_definitions(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource_definitions(cache)
    monkeypatch.setattr(crds, "GENERATOR", "crd:maxDescLen=10")
    assert resource_definitions(cache) != before


def test_a_generator_that_fails_is_reported_and_asked_again(cache: Cache, tmp_path: Path) -> None:
    program(tmp_path / "operator", "controller-gen", "echo 'no Go files' >&2; exit 1")
    with pytest.raises(ToolchainError, match=r"(?s)custom resource definitions: .*no Go files"):
        resource_definitions(cache)
    program(tmp_path / "operator", "controller-gen", GENERATOR)
    assert resource_definitions(cache).is_dir()
