"""A broker that is set up as the chart sets one up with `security`, on this machine: TLS, logins, and rights."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from effectively_once.kafka_client import FOLDER, MECHANISM, PROTOCOL, client_config
from effectively_once.operate import grant
from infra.certificates import Certificate, make_authority, sign
from infra.components import kafka_security
from infra.components.clients import login
from infra.components.kafka_security import MAY_ALL
from infra.components.kafka_security import MECHANISM as SCRAM
from infra.embedded.kafka import KafkaBroker
from infra.embedded.ports import HOST
from infra.settings import Settings
from infra.toolchain.prepare import Toolchain
from infra.values.kafka import KafkaValues, Security
from tests.charts.render import NAMESPACE, render
from tests.charts.samples import IMAGE

NAME = "localhost"
"""What clients call the broker: its certificate has no address."""
_NODE = f"kafka-0.kafka-nodes.{NAMESPACE}.svc.cluster.local"


@dataclass(frozen=True)
class Folders:
    """Files of an authority, as Secrets are mounted: of the node, of who gives rights, and of users.

    Attributes:
        root: has a folder for each.
        authority: has signed the certificates.
    """

    root: Path
    authority: Certificate

    @classmethod
    def make(cls, root: Path) -> Folders:
        """Write those of the node and of who gives rights."""
        authority = make_authority("a platform")
        found = cls(root, authority)
        node, admin = sign(authority, MAY_ALL[0], [NAME]), sign(authority, MAY_ALL[1])
        found._write("tls", {"ca.crt": authority.certificate, "keystore.pem": node.key + node.certificate})
        found._write("admin", {"ca.crt": authority.certificate, "tls.crt": admin.certificate, "tls.key": admin.key})
        return found

    @property
    def admin(self) -> dict[str, str]:
        """The environment of who gives rights."""
        return {PROTOCOL: "SSL", FOLDER: str(self.root / "admin")}

    def user(self, name: str, password: str, authority: Certificate | None = None) -> dict[str, str]:
        """Write the login of a user; return the environment of its pods."""
        data = {key: base64.b64decode(one).decode() for key, one in login(SCRAM, name, password).items()}
        folder = self._write(f"user-{name}", {**data, "ca.crt": (authority or self.authority).certificate})
        return {PROTOCOL: "SASL_SSL", MECHANISM: SCRAM, FOLDER: str(folder)}

    def _write(self, name: str, files: Mapping[str, str]) -> Path:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        for key, text in files.items():
            (folder / key).write_text(text)
        return folder


class SecuredKafka(KafkaBroker):
    """One node, broker and controller, with the chart's properties but for ports, folders and names of hosts.

    Attributes:
        folders: of its certificates, and of logins.
    """

    def __init__(self, work: Path, log: Path, toolchain: Toolchain, security: Security, folders: Folders) -> None:
        super().__init__(work, log, toolchain.java, toolchain.kafka_classpath)
        self.folders, self._security = folders, security

    @property
    def bootstrap(self) -> str:
        """The listener at which clients log in."""
        return f"{NAME}:{self._port}"

    @property
    def nodes(self) -> str:
        """The listener of nodes, and of who gives rights."""
        return f"{NAME}:{self.link_port}"

    @cached_property
    def _objects(self) -> Any:
        """What the chart makes."""
        return render("kafka", KafkaValues(image=IMAGE, security=self._security).to_helm())

    def give(self, passwords: Mapping[str, str], **users: Any) -> int:
        """Run the command of the chart's Job, as who gives rights, with other ones for some users; its exit code."""
        told = json.loads(self._objects.one("ConfigMap", "kafka-grants")["data"]["grants.json"])
        path = self.folders.root / "grants.json"
        path.write_text(json.dumps({"bootstrap": self.nodes, "users": told["users"] | users}))
        folder = self.folders.root / "passwords"
        folder.mkdir(exist_ok=True)
        for user, password in passwords.items():
            (folder / user).write_text(password)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.folders.admin.items():
                patch.setenv(name, value)
            return grant.main([str(path), f"--passwords={folder}", "--deadline-s=60"])

    def _properties(self, controller_port: int, data: Path, link: tuple[int, int] | None) -> str:
        text: str = self._objects.one("ConfigMap", "kafka")["data"]["server.properties"]
        known = {
            "${NODE_ID}": "0",
            _NODE.replace("kafka-0", "${HOSTNAME}", 1): NAME,
            _NODE: NAME,
            "://:": f"://{HOST}:",
            ":9092": f":{self._port}",
            ":9093": f":{controller_port}",
            ":9094": f":{self.link_port}",
            "/etc/kafka-tls": str(self.folders.root / "tls"),
            "/var/lib/kafka/data": str(data),
        }
        for name, value in known.items():
            text = text.replace(name, value)
        return text

    def _login(self) -> dict[str, object]:
        return client_config(self.nodes, self.folders.admin)


@contextmanager
def secured(wanted: Settings, toolchain: Toolchain, root: Path) -> Iterator[SecuredKafka]:
    """Start a broker with the users and rights that the program gives for these settings; it ends in any case."""
    security = kafka_security.values(wanted)
    assert isinstance(security, Security)
    broker = SecuredKafka(root / "broker", root / "broker.log", toolchain, security, Folders.make(root))
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
