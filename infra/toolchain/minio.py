"""MinIO for the embedded stack: the wrapper's build that the images hold too; upstream no longer publishes binaries.

A `minio` that happens to be on PATH is not used: it may lack the quorum fix of conditional puts, on which the chain
rests. Whoever knows better sets EFFECTIVELY_ONCE_MINIO to a binary.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from infra.toolchain import go_tools
from infra.toolchain.cache import Cache
from infra.toolchain.command import ToolchainError

OVERRIDE = "EFFECTIVELY_ONCE_MINIO"


def build_minio(cache: Cache, env: Mapping[str, str] | None = None) -> Path:
    """Return the server's binary, built at most once per go.mod and go.sum.

    Raises ToolchainError when the build fails or EFFECTIVELY_ONCE_MINIO does not name a program.
    """
    given = (os.environ if env is None else env).get(OVERRIDE)
    if given:
        if not (os.access(given, os.X_OK) and Path(given).is_file()):
            raise ToolchainError(f"MinIO: {OVERRIDE}={given} is not a program; correct or unset it")
        return Path(given).absolute()
    return go_tools.build(cache, go_tools.MINIO, hint=f", or set {OVERRIDE} to a minio binary") / "minio"
