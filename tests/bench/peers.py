"""The peers' programs: one jar of ours, and a class path for each, as they need other versions of Kafka's client."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_pom
from infra.toolchain.jdk import find_jdk
from infra.toolchain.jvm import build_jvm_jar

HERE = Path(__file__).parent / "java"
PEERS = ("streams", "flink")
Peer = Literal["streams", "flink"]


def class_path(peer: Peer) -> str:
    """Return the class path of a peer's program, which is built if it is not there. Raises ToolchainError."""
    cache = Cache(cache_root())
    jars = {name: resolve_pom(cache, name, HERE / name / "pom.xml") for name in PEERS}
    own = build_jvm_jar(cache, find_jdk(), [*jars.values()], HERE / "src")
    return f"{own}:{jars[peer]}/*"
