"""The Spark operator's custom resource definitions, generated from its Go types: the module has no file to install."""

from __future__ import annotations

import os
from pathlib import Path

from infra.toolchain import command, go_tools
from infra.toolchain.cache import Cache, digest
from infra.toolchain.go import find_go, parse_go_version
from infra.versions import SPARK_OPERATOR_CRDS

TYPES = "github.com/kubeflow/spark-operator/v2/api/..."
# Without descriptions: they are three quarters of it, and an object of more than a megabyte is refused.
GENERATOR = "crd:maxDescLen=0"


def resource_definitions(cache: Cache) -> Path:
    """Return the directory of the definitions, one YAML file each, whose first line says of which version they are.

    Raises ToolchainError when generator or types cannot be built.
    """
    tool = go_tools.SPARK_OPERATOR_TOOL
    parts = {"generator": GENERATOR, "types": TYPES, "first": SPARK_OPERATOR_CRDS}
    key = digest({"tool": go_tools.key(tool, go_tools.machine_arch()), **parts})

    def build(directory: Path) -> None:
        generator = go_tools.build(cache, tool) / "controller-gen"
        go = find_go(cache, parse_go_version((tool.folder / "go.mod").read_text()) or ())
        command.run(
            "custom resource definitions",
            [generator, GENERATOR, f"paths={TYPES}", f"output:crd:dir={directory / 'crds'}"],
            cwd=tool.folder,
            # The generator calls `go`.
            env={"PATH": f"{go.path.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
            log=cache.root / "logs" / "crds.log",
            hint="check that Go reaches its module proxy (`go env GOPROXY`)",
        )
        for made in (directory / "crds").glob("*.yaml"):
            made.write_text(f"{SPARK_OPERATOR_CRDS}\n{made.read_text()}")

    return cache.get("crds", key, build) / "crds"
