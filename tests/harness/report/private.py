"""What of this machine no published file may hold: paths, its names, the registries that it is set to."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tests.harness.report.packing import Private

INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "GOPROXY", "npm_config_registry")
"""Settings that name registries of this machine."""


def private(environment: Mapping[str, str], checkout: Path) -> Iterator[Private]:
    """All of it, under this environment."""
    for what, path in (("the checkout's path", checkout), ("the home directory", Path.home())):
        if path != Path("/"):
            yield Private(what, str(path))
    for name in sorted({socket.gethostname(), socket.getfqdn()} - {"", "localhost"}):
        yield Private("a name of this machine", name, word=True)
    for setting in INDEXES:
        for address in environment.get(setting, "").replace("|", ",").replace(" ", ",").split(","):
            if host := urlsplit(address).hostname:
                yield Private(f"a host of {setting}", host, word=True)
