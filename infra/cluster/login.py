"""How this process, and what it starts, log in at a deployed stack: variables, and files that the user alone reads.

They are those of the library: what reads its environment logs in, and nothing is on a command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

from infra.cluster.access import Access
from infra.cluster.platform import AccessError
from infra.embedded.stack import Endpoints

PROTOCOL, MECHANISM, FOLDER = "KAFKA_SECURITY_PROTOCOL", "KAFKA_SASL_MECHANISM", "KAFKA_CREDENTIALS"
CERTIFICATES: Final = "AWS_CA_BUNDLE"
USERNAME, PASSWORD, JAAS, CA = "username", "password", "jaas.conf", "ca.crt"
"""As the library names them, whose code is not imported here."""
TOOLS: Final = "tools.properties"
"""Beside the login: what the broker's own tools read, without the password, which they find in the file for the JVM."""
_SCRAM: Final = "SCRAM-SHA-512"


@contextmanager
def logged_in(deployed: Access) -> Iterator[Endpoints]:
    """Have this process log in at a stack until the block ends, and those that it starts meanwhile.

    Raises:
        AccessError: there is no way in from outside, no login, or a Secret lacks something.
        ApiError, UnreachableError: a Secret cannot be read.
    """
    endpoints = deployed.endpoints()
    with TemporaryDirectory(prefix="effectively-once-login-") as folder, patch.dict(os.environ):
        os.environ.update(endpoints.credentials | write_login(deployed, Path(folder)))
        yield endpoints


def write_login(deployed: Access, folder: Path) -> dict[str, str]:
    """Write what clients of broker and object store need into a folder; return the variables that name it.

    Nothing is written for a stack that takes plain connections. Raises as `logged_in`.
    """
    platform, found = deployed.platform, dict[str, str]()
    kafka, certificates = platform.kafka, platform.object_store.certificates
    if kafka.certificates is not None:
        if kafka.secret is None:
            raise AccessError(
                "the broker of this stack asks for a login, and nobody has one for this: "
                "`pulumi config set --path security.campaigns true`, then `make up`"
            )
        own = folder / "kafka"
        keys = (USERNAME, PASSWORD, JAAS, CA)
        _write(own, deployed.read_secret(platform.namespaces.pipelines, kafka.secret, keys))
        told = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _SCRAM,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(own / CA),
        }
        _write(own, {TOOLS: "".join(f"{key}={value}\n" for key, value in told.items())})
        found |= {PROTOCOL: "SASL_SSL", MECHANISM: _SCRAM, FOLDER: str(own)}
    if certificates is not None:
        _write(folder / "object-store", deployed.read_secret(platform.namespaces.platform, certificates, (CA,)))
        found[CERTIFICATES] = str(folder / "object-store" / CA)
    return found


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text)
