"""An object store that is set up as the chart sets one up with `security`, on this machine: TLS, and users."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from effectively_once.operate import grant_objects
from effectively_once.store.s3_client import ACCESS_KEY, CERTIFICATES, SECRET_KEY
from infra.certificates import Certificate, make_authority
from infra.components import clients, object_security
from infra.components.authority import sign_pair
from infra.embedded.object_store import ObjectStore
from infra.toolchain.prepare import prepare
from infra.values.minio import MinioValues, Security
from tests.charts.render import Rendered, render
from tests.charts.samples import IMAGE
from tests.infra.platform import settings as platform

PIPELINES: Final[dict[str, Any]] = {"user_counts": {}, "clicks": {"job": "own.clicks", "topic": "clicks"}}


def objects(rotation: int = 0, pipelines: Mapping[str, Any] = PIPELINES, **values: Any) -> Rendered:
    """Return what the chart makes for a stack with these pipelines."""
    wanted = platform(security={"object_store": True, "rotation": rotation}, pipelines=pipelines)
    security = object_security.values(wanted)
    assert isinstance(security, Security)
    return render("minio", MinioValues(image=IMAGE, security=security, **values).to_helm())


def mount_certificates(folder: Path, authority: Certificate, hosts: Sequence[str] | None = None) -> None:
    """Write what the store's pods find below their --certs-dir, by the chart's names; hosts are the program's own."""
    named = object_security.hosts(platform()) if hosts is None else hosts
    data = sign_pair(object_security.NAME, named, authority, clients.encode(authority.certificate))
    pod = objects().one("StatefulSet", "minio")["spec"]["template"]["spec"]
    at = pod["containers"][0]["args"].index("--certs-dir") + 1
    mounts = {one["mountPath"]: one["name"] for one in pod["containers"][0]["volumeMounts"]}
    (secret,) = (one["secret"] for one in pod["volumes"] if one["name"] == mounts[pod["containers"][0]["args"][at]])
    for item in secret["items"]:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_bytes(base64.b64decode(data[item["key"]]))


class Secured:
    """A store, and the command of the chart's Job with its file.

    Attributes:
        server: of the owner.
        bucket: of the pipelines.
        passwords: of each user.
        authority: file that clients believe.
    """

    def __init__(self, server: ObjectStore, folder: Path, authority: Path) -> None:
        self.server, self._folder, self.authority = server, folder, authority
        self.bucket = platform(pipelines=PIPELINES).object_store.bucket
        self.passwords: dict[str, str] = {}

    def give(self, patch: pytest.MonkeyPatch, rotation: int = 0, pipelines: Mapping[str, Any] = PIPELINES) -> int:
        """Give the rights of these pipelines, with a password for each user that is of its name; the exit code."""
        found = objects(rotation, pipelines).one("ConfigMap", "minio-grants")
        told = json.loads(found["data"]["grants.json"])
        assert told["endpoint"].startswith("https://")
        path, passwords = self._folder / "grants.json", self._folder / "passwords"
        path.write_text(json.dumps({**told, "endpoint": self.server.endpoint}))
        passwords.mkdir(exist_ok=True)
        self.passwords |= {user: f"password of {user}" for user in told["users"]}
        for user, password in self.passwords.items():
            (passwords / user).write_text(password)
        patch.setenv(ACCESS_KEY, self.server.access_key)
        patch.setenv(SECRET_KEY, self.server.secret_key)
        patch.setenv(CERTIFICATES, str(self.authority))
        return grant_objects.main([str(path), f"--passwords={passwords}", "--deadline-s=60"])


@contextmanager
def secured_store(folder: Path) -> Iterator[Secured]:
    """Start one; it ends in any case."""
    server, authority = (
        ObjectStore(folder / "store", folder / "store.log", prepare().minio),
        make_authority("a platform"),
    )
    mount_certificates(folder / "store" / "certs", authority)
    server.authority = folder / "ca.crt"
    server.authority.write_text(authority.certificate)
    try:
        server.start()
        yield Secured(server, folder, server.authority)
    finally:
        server.stop()
