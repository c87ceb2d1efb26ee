"""`pulumi preview --policy-pack infra/policy`, as the command line itself does it, over a chart of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.policy import analyzer
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.go_tools import PULUMI_KUBERNETES_TOOL, PULUMI_TOOL, build, is_built
from infra.values.generate import CHARTS
from tests.charts import samples

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
PACK = ROOT / "infra" / "policy"
PREVIEW_S = 120.0
# Objects become files: a preview asks no cluster.
PROGRAM = """\
import pulumi
from pulumi_kubernetes import Provider
from pulumi_kubernetes.helm.v4 import Chart

wanted = pulumi.Config()
own = pulumi.ResourceOptions(provider=Provider("files", render_yaml_to_directory="objects"))
Chart("minio", chart=wanted.require("chart"), namespace="x", values=wanted.require_object("values"), opts=own)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the program and what runs it."""
    cache = Cache(cache_root())
    if absent := [tool.name for tool in (PULUMI_TOOL, PULUMI_KUBERNETES_TOOL) if not is_built(cache, tool)]:
        pytest.skip(f"not built yet: {', '.join(absent)}; `make tools` does")
    here = tmp_path_factory.mktemp("policy")
    (here / "Pulumi.yaml").write_text("name: effectively-once\nruntime: python\n")
    (here / "__main__.py").write_text(PROGRAM)
    (here / "backend").mkdir()
    programs = here / "bin"
    programs.mkdir()
    for tool in (PULUMI_TOOL, PULUMI_KUBERNETES_TOOL):
        for binary in tool.binaries:
            (programs / binary).symlink_to(build(cache, tool) / binary)
    host = programs / "pulumi-language-python"
    host.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m infra.language_host "$@"\n')
    host.chmod(0o755)
    return here


def pulumi(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with a backend of files in the folder."""
    own = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "NO_COLOR": "1",
    }
    # A cluster that is named is none to render for; tests before this one may have named one.
    free = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(
        [folder / "bin" / "pulumi", *words, "--non-interactive", "--cwd", folder],
        env=free | own,
        capture_output=True,
        text=True,
        timeout=PREVIEW_S,
        check=False,
    )


def preview(folder: Path, chart: Path, **security: object) -> subprocess.CompletedProcess[str]:
    """Preview a chart of a plain object store, with a stack that asks for that, and for something beside it."""
    config = {
        "effectively-once:security": {"level": "each", **security},
        "effectively-once:chart": str(chart),
        "effectively-once:values": samples.EACH["minio"][1].to_helm(),
    }
    if not any((folder / "backend").rglob("test.json")):
        made = pulumi(folder, "stack", "init", "test", "--secrets-provider", "passphrase")
        assert made.returncode == 0, made.stderr
    settings = folder / "Pulumi.test.yaml"
    salt = next(line for line in settings.read_text().splitlines() if line.startswith("encryptionsalt"))
    settings.write_text(f"{salt}\nconfig: {json.dumps(config)}\n")
    return pulumi(folder, "preview", "--stack", "test", "--policy-pack", str(PACK))


def test_a_chart_of_ours_passes(folder: Path) -> None:
    done = preview(folder, CHARTS / "minio")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{analyzer.NAME}@v{analyzer.VERSION}" in done.stdout
    assert "StatefulSet" in done.stdout


def test_a_plain_server_is_refused_where_the_stack_does_not_ask_for_one(folder: Path) -> None:
    done = preview(folder, CHARTS / "minio", level="all")
    assert done.returncode
    assert "[mandatory]  minio-encrypted  (kubernetes:apps/v1:StatefulSet: " in done.stdout


def test_a_preview_refuses_by_name_what_breaks_a_rule(folder: Path, tmp_path: Path) -> None:
    """One of each kind: of an object, of a whole stack, and what only this stack asks for."""
    chart = tmp_path / "minio"
    subprocess.run(["cp", "-r", CHARTS / "minio", chart], check=True)
    (chart / "templates" / "disruption.yaml").unlink()
    stateful_set = chart / "templates" / "statefulset.yaml"
    text = stateful_set.read_text()
    assert "whenScaled: Retain" in text
    stateful_set.write_text(text.replace("whenScaled: Retain", "whenScaled: Delete"))
    done = preview(folder, chart, pinned_images=True)
    assert done.returncode
    for rule, says in (
        ("budget", "there is no budget minio"),
        ("volumes-kept-when-scaled", "whenScaled is Delete"),
        ("pinned-images", f"minio runs {samples.IMAGE}"),
    ):
        assert f"[mandatory]  {rule}  (kubernetes:apps/v1:StatefulSet: " in done.stdout
        assert says in done.stdout
    for rule in ("restricted", "tagged-images", "volumes-kept  "):
        assert f"[mandatory]  {rule}" not in done.stdout
