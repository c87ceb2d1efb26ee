"""Every wrapper module pins the version that infra/versions.py names, with a checksum."""

from __future__ import annotations

import re

import pytest

from infra import versions
from infra.toolchain import go_tools
from infra.toolchain.go_tools import GoTool

# Main module of each wrapper and its version. The provider's module is tagged with nothing that Go can read: its commit
# stands here beside the release that it is.
MAIN = {
    "minio": ("github.com/minio/minio", versions.MINIO),
    "kubernetes": ("k8s.io/kubernetes", f"v{versions.KUBERNETES}"),
    "kind": ("sigs.k8s.io/kind", f"v{versions.KIND}"),
    "etcd": ("go.etcd.io/etcd/server/v3", f"v{versions.ETCD}"),
    "coredns": ("github.com/coredns/coredns", f"v{versions.COREDNS}"),
    "local-path-provisioner": ("github.com/rancher/local-path-provisioner", f"v{versions.LOCAL_PATH_PROVISIONER}"),
    "spark-operator": ("github.com/kubeflow/spark-operator/v2", f"v{versions.SPARK_OPERATOR}"),
    "helm": ("helm.sh/helm/v4", f"v{versions.HELM}"),
    "prometheus": ("github.com/prometheus/prometheus", {"3.16.0": "v0.316.0"}[versions.PROMETHEUS]),
    "alertmanager": ("github.com/prometheus/alertmanager", f"v{versions.ALERTMANAGER}"),
    "pulumi": ("github.com/pulumi/pulumi/pkg/v3", f"v{versions.PULUMI}"),
    "pulumi-kubernetes": (
        "github.com/pulumi/pulumi-kubernetes/provider/v4",
        {"4.25.0": "v4.0.0-20260115033456-f47bc2d6f199"}[versions.PULUMI_KUBERNETES],
    ),
}
WITH_MODULES = [tool for tool in go_tools.ALL if tool.name != "pause"]


def _required(tool: GoTool) -> dict[str, str]:
    """Versions by module, replacements applied."""
    text = (tool.folder / "go.mod").read_text()
    found: dict[str, str] = dict(re.findall(r"^(?:require\s+|\t)(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE))
    replaced: dict[str, str] = dict(re.findall(r"^(?:replace\s+|\t)(\S+)(?: v\S+)? => \1 (v\S+)$", text, re.MULTILINE))
    return {module: replaced.get(module, version) for module, version in found.items()}


def test_the_table_above_has_every_tool() -> None:
    assert set(MAIN) == {tool.name for tool in WITH_MODULES}


@pytest.mark.parametrize("tool", WITH_MODULES, ids=lambda tool: tool.name)
def test_a_wrapper_requires_the_version_of_versions_py_and_has_its_checksum(tool: GoTool) -> None:
    module, version = MAIN[tool.name]
    assert _required(tool)[module] == version
    assert f"{module} {version} h1:" in (tool.folder / "go.sum").read_text()


@pytest.mark.parametrize("tool", WITH_MODULES, ids=lambda tool: tool.name)
def test_every_required_module_has_a_checksum(tool: GoTool) -> None:
    sums = set(re.findall(r"^(\S+) (v\S+?)(?:/go\.mod)? h1:", (tool.folder / "go.sum").read_text(), re.MULTILINE))
    required = _required(tool)
    assert len(required) > 5
    # What another module replaces has its checksum under that one's name.
    mod = (tool.folder / "go.mod").read_text()
    elsewhere = set(re.findall(r"^(?:replace\s+|\t)(\S+)(?: v\S+)? => (?!\1 )", mod, re.MULTILINE))
    assert {item for item in required.items() if item[0] not in elsewhere} <= sums


@pytest.mark.parametrize("tool", go_tools.ALL, ids=lambda tool: tool.name)
def test_a_wrapper_is_named_after_its_folder_and_can_build_what_is_asked_of_it(tool: GoTool) -> None:
    text = (tool.folder / "go.mod").read_text()
    assert text.startswith(f"module effectively-once/toolchain/{tool.name}\n")
    assert re.search(r"^go 1\.\d+\.\d+$", text, re.MULTILINE)
    for package in tool.binaries.values():
        if package == ".":
            assert (tool.folder / "main.go").is_file()
        else:
            assert re.search(rf"^(?:tool |\t){re.escape(package)}$", text, re.MULTILINE), package


def test_pause_is_a_program_of_our_own_without_any_dependency() -> None:
    folder = go_tools.PAUSE_TOOL.folder
    assert "require" not in (folder / "go.mod").read_text()
    assert not (folder / "go.sum").exists()
    imported = re.findall(r'^\t"(.+)"$', (folder / "main.go").read_text(), re.MULTILINE)
    assert imported
    assert not [name for name in imported if "." in name.split("/")[0]]


def test_no_wrapper_replaces_a_module_with_a_folder_of_one_machine() -> None:
    for tool in go_tools.ALL:
        assert not re.search(r"=>\s*[./]", (tool.folder / "go.mod").read_text()), tool.name


@pytest.mark.parametrize(
    ("tool", "stamp"),
    [
        (go_tools.PULUMI_TOOL, f"/version.Version=v{versions.PULUMI}"),
        (go_tools.PULUMI_KUBERNETES_TOOL, f"/version.Version=v{versions.PULUMI_KUBERNETES}"),
        (go_tools.KUBERNETES_TOOL, f"-X k8s.io/component-base/version.gitVersion=v{versions.KUBERNETES}"),
        (go_tools.KUBERNETES_TOOL, f"-X k8s.io/client-go/pkg/version.gitVersion=v{versions.KUBERNETES}"),
        (go_tools.PROMETHEUS_TOOL, f"/version.Version={versions.PROMETHEUS}"),
        (go_tools.ALERTMANAGER_TOOL, f"/version.Version={versions.ALERTMANAGER}"),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_tools_that_must_tell_their_version_are_stamped_with_it(tool: GoTool, stamp: str) -> None:
    assert stamp in tool.flags()[-1]
    assert "$Format" not in " ".join(tool.flags()), "a version that kubeadm can read"
    module = next(iter(tool.stamps)).rsplit("/pkg/version.", 1)[0].rsplit("/go/common", 1)[0].rsplit("/version.", 1)[0]
    assert module in _required(tool)
