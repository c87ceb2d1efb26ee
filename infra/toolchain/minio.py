"""MinIO, built from its Go module: upstream no longer publishes binaries.

A `minio` that happens to be on PATH is not used: it may lack the quorum fix of conditional puts, on which the chain
rests. Whoever knows better sets EFFECTIVELY_ONCE_MINIO to a binary.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from infra.toolchain import command
from infra.toolchain.cache import Cache, digest
from infra.toolchain.go import find_go, parse_go_version

MODULE = Path(__file__).parent / "wrappers" / "minio"
PACKAGE = "github.com/minio/minio"
FLAGS = ("-trimpath", "-ldflags", "-s -w")
OVERRIDE = "EFFECTIVELY_ONCE_MINIO"


def build_minio(cache: Cache, env: Mapping[str, str] | None = None) -> Path:
    """Return the server's binary, built at most once per go.mod and go.sum.

    Raises ToolchainError when the build fails or EFFECTIVELY_ONCE_MINIO does not name a program.
    """
    given = (os.environ if env is None else env).get(OVERRIDE)
    if given:
        if not (os.access(given, os.X_OK) and Path(given).is_file()):
            raise command.ToolchainError(f"MinIO: {OVERRIDE}={given} is not a program; correct or unset it")
        return Path(given).absolute()
    mod = (MODULE / "go.mod").read_text()
    machine = platform.machine()
    key = digest({"mod": mod, "sum": (MODULE / "go.sum").read_bytes(), "flags": " ".join(FLAGS), "machine": machine})

    def build(directory: Path) -> None:
        go = find_go(cache, parse_go_version(mod) or ())
        command.run(
            "MinIO",
            [go.path, "build", *FLAGS, "-o", directory / "minio", PACKAGE],
            cwd=MODULE,
            env={"CGO_ENABLED": "0"},
            log=cache.root / "logs" / "minio.log",
            hint=f"check that Go reaches its module proxy (`go env GOPROXY`), or set {OVERRIDE} to a minio binary",
        )

    return cache.get("minio", key, build) / "minio"
