"""How Kafka is spoken to: in plain text, or as the environment says, with TLS and a login.

Three variables: the protocol, the mechanism, and a folder of files. Files and not variables, since Kafka's clients in
the JVM read a login from a file, and what a settings file or an argument has is read by too many.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import certifi

from effectively_once.errors import AccessError, PipelineError, SettingsError, UnreachableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

PROTOCOL: Final = "KAFKA_SECURITY_PROTOCOL"
MECHANISM: Final = "KAFKA_SASL_MECHANISM"
FOLDER: Final = "KAFKA_CREDENTIALS"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
USERNAME, PASSWORD, CERTIFICATES, JAAS = "username", "password", "ca.crt", "jaas.conf"
"""Files of the folder. Without `ca.crt` those are believed that everybody trusts; the JVM reads `jaas.conf`."""
CERTIFICATE, KEY = "tls.crt", "tls.key"
"""Files of who shows a certificate of its own: whoever gives rights, and no pipeline."""
REFUSALS: Final = {
    "TOPIC_AUTHORIZATION_FAILED": "does not let it use the topic",
    "GROUP_AUTHORIZATION_FAILED": "does not let it use the consumer group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "does not let it use the transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "does not let it do this in the cluster",
    "SASL_AUTHENTICATION_FAILED": "refuses its login",
    "_AUTHENTICATION": "refuses its login",
    "_SSL": "is not the one whose certificate is believed, or does not believe ours",
}
"""Codes of a broker, or of the client about it, that no patience mends."""
_REFUSED_HANDSHAKE: Final = re.compile(r"certificate|\balert\b|wrong version number")
"""What the client says of `_SSL` then; of a connection that was reset in the handshake it may have the same code."""


@dataclass(frozen=True)
class Access:
    """A login, read once; files are read whenever a client is made, so that what is renewed counts for the next."""

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    folder: Path | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Access:
        """Read it from the environment.

        Raises:
            SettingsError: a variable says what is not allowed, lacks another, or a file is missing.

        """
        protocol = environment.get(PROTOCOL) or "PLAINTEXT"
        mechanism, named = environment.get(MECHANISM) or None, environment.get(FOLDER)
        found = cls(protocol, mechanism, Path(named) if named else None)
        if protocol not in PROTOCOLS:
            raise _wrong(PROTOCOL, f"is {protocol!r}", f"one of {', '.join(PROTOCOLS)}")
        if found.has_login:
            if mechanism not in MECHANISMS:
                raise _wrong(MECHANISM, f"is {mechanism!r}", f"one of {', '.join(MECHANISMS)}")
            if found.folder is None:
                raise _wrong(FOLDER, "is not set", f"a folder with {USERNAME}, {PASSWORD} and {JAAS}")
            for name in (USERNAME, PASSWORD, JAAS):
                found.read(name)
        return found

    @property
    def has_login(self) -> bool:
        """Whether a broker asks who it is."""
        return self.protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted, and the broker shows a certificate."""
        return self.protocol.endswith("SSL")

    @property
    def certificates(self) -> Path | None:
        """Certificates that are believed, None: those that everybody trusts."""
        own = self.folder / CERTIFICATES if self.folder else None
        return own if own and own.is_file() else None

    def read(self, name: str) -> str:
        """Return a file's text without the line's end that editors add. Raises SettingsError naming the file."""
        assert self.folder is not None  # noqa: S101 - `of` looked
        try:
            text = (self.folder / name).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise _wrong(FOLDER, f"names {self.folder}, where {name} cannot be read ({error.strerror})", name) from None
        if not text:
            raise _wrong(FOLDER, f"names {self.folder}, where {name} is empty", name)
        return text

    def librdkafka(self) -> dict[str, object]:
        """Return settings of `confluent_kafka`'s clients; nothing for plain text."""
        if self.protocol == "PLAINTEXT":
            return {}
        found: dict[str, object] = {"security.protocol": self.protocol}
        if self.has_tls:
            found["ssl.ca.location"] = str(self.certificates or certifi.where())
        if self.has_tls and self.folder and (self.folder / CERTIFICATE).is_file():
            found |= {"ssl.certificate.location": str(self.folder / CERTIFICATE)}
            found |= {"ssl.key.location": str(self.folder / KEY)}
        if self.has_login:
            login = {"sasl.username": self.read(USERNAME), "sasl.password": self.read(PASSWORD)}
            found |= {"sasl.mechanism": str(self.mechanism), **login}
        return found

    def kafka_python(self) -> dict[str, object]:
        """Return arguments of `kafka-python`'s clients."""
        found: dict[str, object] = {"security_protocol": self.protocol}
        if self.has_tls:
            found["ssl_cafile"] = str(self.certificates or certifi.where())
        if self.has_login:
            login = {"sasl_plain_username": self.read(USERNAME), "sasl_plain_password": self.read(PASSWORD)}
            found |= {"sasl_mechanism": str(self.mechanism), **login}
        return found

    def spark(self) -> dict[str, str]:
        """Return options of Spark's source: no login, which plans and event logs would show.

        The JVM reads that from `jaas.conf`, which whoever starts it names (`java.security.auth.login.config`).
        """
        if self.protocol == "PLAINTEXT":
            return {}
        found = {"kafka.security.protocol": self.protocol}
        if self.has_login:
            found["kafka.sasl.mechanism"] = str(self.mechanism)
        if self.has_tls and (own := self.certificates):
            found |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": str(own)}
        return found


FAILED_DISK: Final = "KAFKA_STORAGE_ERROR"
"""A folder of a broker's logs is offline: its disk is full or broken. Clients ask again for long before they say it."""
FRESH_S: Final = 60.0
_refused: dict[str, tuple[str, float]] = {}
"""Bootstrap -> what a client was refused with, and when: its questions end without an answer, and without that."""


def client_config(bootstrap: str, environment: Mapping[str, str] = os.environ) -> dict[str, object]:
    """Return what every client of `confluent_kafka` is configured with.

    Raises:
        SettingsError: see `Access.of`.

    """
    access = Access.of(environment).librdkafka()
    watched = {"error_cb": lambda error: _remember(bootstrap, error)} if access else {}
    return {"bootstrap.servers": bootstrap, "log_level": 0, **access, **watched}


def refusal(error: KafkaError, bootstrap: str, what: str, client: Any = None) -> PipelineError | None:
    """Return the named error where a broker refuses who asks, or says that its disk is full or failed.

    A question that ends without an answer is such a refusal too where a client was told of one before.

    Args:
        error: that the question ended with.
        bootstrap: addresses of the broker.
        what: was asked for.
        client: asked it. One for administration, or a producer, tells what it was told only when it is polled.

    """
    if error.name() == FAILED_DISK:
        return name_failed_disk(f"{error.str()}, {what}", bootstrap)
    if client is not None:
        client.poll(0)
    before, when = _refused.get(bootstrap, ("", -FRESH_S))
    said = _refusal_of(error) or (before if time.monotonic() - when < FRESH_S else "")
    if not said:
        return None
    try:
        access = Access.of(os.environ)
        who = f"user {access.read(USERNAME)}" if access.has_login else "this client"
    except SettingsError:
        who = "this client"
    return AccessError(
        f"the Kafka broker {said}: {who}, {what}",
        bootstrap,
        f"Check {PROTOCOL}, {MECHANISM} and the files of {FOLDER}, and what this user may do; nothing was lost.",
    )


def name_failed_disk(said: str, bootstrap: str) -> UnreachableError:
    """Return the named error for a broker that lost a folder of its logs."""
    return UnreachableError(
        f"a disk of the Kafka broker is full or failed: {said}",
        bootstrap,
        "`kafka-log-dirs.sh --describe` names broker and folder: make room there, or replace the disk, then start that "
        "broker again, which leaves the folder alone until then; nothing was lost, start the pipeline again.",
    )


def _remember(bootstrap: str, error: KafkaError) -> None:
    if said := _refusal_of(error):
        _refused[bootstrap] = said, time.monotonic()


def _refusal_of(error: KafkaError) -> str:
    """Return what the broker does that no patience mends, empty where one may ask again."""
    name: str = error.name()
    if name == "_SSL" and not _REFUSED_HANDSHAKE.search(error.str()):
        return ""
    return REFUSALS.get(name, "")


def _wrong(variable: str, found: str, allowed: str) -> SettingsError:
    return SettingsError(f"{variable} {found}", f"environment variable {variable}", f"Allowed or needed: {allowed}.")
