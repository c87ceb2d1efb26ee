"""Programs that a shell wants by name: a suitable one on PATH, else one built from its Go module."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.console import Console
from infra.toolchain import go_tools
from infra.toolchain.cache import Cache
from infra.toolchain.go_tools import GoTool
from infra.versions import KUBERNETES, PULUMI_KUBERNETES

Version = tuple[int, ...]
_MINOR = int(KUBERNETES.split(".")[1])


@dataclass(frozen=True)
class Program:
    """A program, how it tells its version, and which versions will do."""

    name: str
    tool: GoTool
    ask: tuple[str, ...]
    suits: Callable[[Version], bool]
    beside: str | None = None
    """Another program that must lie beside it for it to be of use."""
    also: GoTool | None = None
    """Another tool that it is a part of: where that is built it is there."""


PROGRAMS = (
    # kubectl may be one minor version away from the server.
    Program(
        "kubectl",
        go_tools.KUBECTL_TOOL,
        ("version", "--client"),
        lambda v: abs(v[1] - _MINOR) <= 1,
        also=go_tools.KUBERNETES_TOOL,
    ),
    Program("kind", go_tools.KIND_TOOL, ("version",), lambda v: v >= (0, 27)),
    Program("pulumi", go_tools.PULUMI_TOOL, ("version",), lambda v: v >= (3, 200), "pulumi-language-python"),
    Program(
        "pulumi-resource-kubernetes",
        go_tools.PULUMI_KUBERNETES_TOOL,
        ("--version",),
        lambda v: v[:2] == tuple(map(int, PULUMI_KUBERNETES.split(".")[:2])),
    ),
    Program("helm", go_tools.HELM_TOOL, ("version", "--short"), lambda v: v >= (3, 14)),
)

DEPLOYING = frozenset({"kubectl", "pulumi", "pulumi-resource-kubernetes"})
"""What a deployment to any cluster takes; the others make a cluster here, or prove one."""
EVERY = frozenset(program.name for program in PROGRAMS)


def version_in(text: str) -> Version | None:
    """The first version number of a program's answer."""
    found = re.search(r"v?(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in found.groups()) if found else None


def on_path(program: Program, path: str | None = None) -> Path | None:
    """The program on PATH if it is there, answers and suits."""
    found = shutil.which(program.name, path=path)
    if not found or (program.beside and not Path(found).with_name(program.beside).exists()):
        return None
    try:
        said = subprocess.run(
            [found, *program.ask], capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = version_in(said.stdout + said.stderr)
    return Path(found) if said.returncode == 0 and version and program.suits(version) else None


def find_programs(
    cache: Cache, console: Console, path: str | None = None, needed: Collection[str] = EVERY
) -> Mapping[str, Path]:
    """Every program by name; a `needed` one that is not on `path` (PATH when left out) is built.

    Of the others those are missing that are neither there nor built already. Raises ToolchainError for the first build
    that fails.
    """
    found: dict[str, Path] = {}
    for program in PROGRAMS:
        tool = program.also if program.also and go_tools.is_built(cache, program.also) else program.tool
        here = on_path(program, path)
        if here is None and (program.name in needed or go_tools.is_built(cache, tool)):
            here = provide(cache, console, tool) / program.name
        if here is not None:
            found[program.name] = here
    return found


def provide(cache: Cache, console: Console, tool: GoTool, arch: str | None = None) -> Path:
    """The directory of a tool's binaries, with progress when it has to be built; for this machine without `arch`.

    Raises ToolchainError when the build fails.
    """
    if go_tools.is_built(cache, tool, arch):
        return go_tools.build(cache, tool, arch)
    with console.step(f"{tool.name} (Go build)", expected_s=tool.expected_s):
        return go_tools.build(cache, tool, arch)


def build_all(cache: Cache, console: Console) -> None:
    """Build everything that a cluster of our own needs and PATH does not have; the node's programs are always built."""
    unneeded = {program.tool.name for program in PROGRAMS if on_path(program)}
    for tool in go_tools.ALL:
        if tool.name not in unneeded:
            provide(cache, console, tool)
