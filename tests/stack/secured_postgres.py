"""A PostgreSQL that is set up as the chart sets one up with `security`, on this machine: TLS, and a role a pipeline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from effectively_once.operate import grant_tables
from effectively_once.sinks.database import AUTHORITIES, PASSWORD, SSL_MODE, USER
from infra.certificates import Certificate, make_authority, sign
from infra.components import clients, result_security
from infra.embedded.ports import HOST
from infra.embedded.postgres import PostgresServer
from infra.toolchain.postgres import HOW, find_postgres
from infra.values.postgres import PostgresValues, Security
from tests.charts.render import render
from tests.charts.samples import IMAGE
from tests.infra.platform import settings as platform

_FOLDERS = {"/etc/postgres-tls": "tls", "/etc/postgres": "config"}
"""Where the chart mounts files -> the folder of them here."""


class SecuredPostgres(PostgresServer):
    """One with the chart's certificate, options and pg_hba.conf, but for folders and the name of the host.

    Attributes:
        root: has files of clients.
        authority: has signed its certificate.
        hosts: names in the certificate.
    """

    def __init__(self, root: Path, programs: Path, hosts: Iterable[str] = (HOST,)) -> None:
        super().__init__(root / "data", root / "postgres.log", programs)
        self.root, self.hosts, self.authority = root, [*hosts], make_authority("a platform")
        self.wanted: dict[str, Any] = {}

    def objects(self, **wanted: Any) -> Any:
        """What the chart makes for a stack with these settings."""
        self.wanted = wanted or self.wanted
        security = result_security.values(platform(security={"result_store": True}, **self.wanted))
        assert isinstance(security, Security)
        return render("postgres", PostgresValues(image=IMAGE, security=security).to_helm())

    def give(self, passwords: Mapping[str, str], **wanted: Any) -> int:
        """Run the command of the chart's Job, as the owner; its exit code."""
        told = json.loads(self.objects(**wanted).one("ConfigMap", "postgres-grants")["data"]["grants.json"])
        path, folder = self.root / "grants.json", self.root / "passwords"
        path.write_text(json.dumps({**told, "database": self.url}))
        folder.mkdir(exist_ok=True)
        for user, password in passwords.items():
            (folder / user).write_text(password)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.client(self.user, self.password).items():
                patch.setenv(name, value)
            return grant_tables.main([str(path), f"--passwords={folder}", "--deadline-s=5"])

    def client(self, user: str, password: str, authority: Certificate | None = None) -> dict[str, str]:
        """Return the environment of a user's pods, where it believes this authority."""
        believed = self.root / f"{user}.crt"
        believed.write_text((authority or self.authority).certificate)
        return {USER: user, PASSWORD: password, SSL_MODE: self._mode, AUTHORITIES: str(believed)}

    @cached_property
    def _mode(self) -> str:
        """What the chart of a pipeline is told."""
        wanted = platform(security={"result_store": True}, pipelines={"one": {"job": "own.one", "result_store": True}})
        return str(clients.database(wanted, wanted.pipelines["one"], "one").mode)

    @property
    def _settings(self) -> Mapping[str, str]:
        pod = self.objects().one("StatefulSet", "postgres")["spec"]["template"]["spec"]
        words = [word for word in pod["containers"][0]["args"] if word != "-c"]
        found = dict(word.split("=", 1) for word in words)
        for there, name in _FOLDERS.items():
            found = {key: value.replace(f"{there}/", f"{self._home}/{name}/") for key, value in found.items()}
        return {**super()._settings, **found}

    def _make_data(self) -> None:
        super()._make_data()
        made = sign(self.authority, result_security.NAME, self.hosts)
        self._write("tls", {"tls.crt": made.certificate, "tls.key": made.key})
        self._write("config", self.objects().one("ConfigMap", "postgres")["data"])

    def _write(self, name: str, files: Mapping[str, str]) -> None:
        """Write files as a Secret of the pod's group is mounted: root's where this is root, and readable to nobody."""
        folder, as_root = self._home / name, os.geteuid() == 0
        folder.mkdir()
        folder.chmod(0o755)
        for key, text in files.items():
            path = folder / key
            path.touch(0o440 if as_root else 0o400)
            path.chmod(0o600)
            path.write_text(text)
            if as_root:
                os.chown(path, 0, self._data.stat().st_gid)
            path.chmod(0o440 if as_root else 0o400)


@contextmanager
def secured_postgres(root: Path, **given: Any) -> Iterator[SecuredPostgres]:
    """Start one; it ends in any case. Skips the test where there is no PostgreSQL."""
    programs = find_postgres()
    if programs is None:
        pytest.skip(HOW)
    server = SecuredPostgres(root, programs, **given)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        server.remove()
