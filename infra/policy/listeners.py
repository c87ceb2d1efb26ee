"""Listeners that take plain connections, as Kafka's and PostgreSQL's own files say it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from infra.policy.pods import NAME, Object

_PROTOCOLS: Final = "listener.security.protocol.map"
_ENCRYPTED: Final = ("SSL", "SASL_SSL")
_PLAIN: Final = ("host", "hostnossl", "hostgssenc", "hostnogssenc")
"""Lines of pg_hba.conf that take connections without TLS; `local` is a socket, which does not leave the pod."""


def plain_kafka(one: Object) -> Iterator[str]:
    """Yield listeners of a broker's or controller's properties whose protocol encrypts nothing."""
    properties = _data(one, "server.properties")
    if properties is None:
        return
    said = dict(line.strip().split("=", 1) for line in properties.splitlines() if "=" in line and line[:1] != "#")
    if _PROTOCOLS not in said:
        yield f"{_PROTOCOLS} is not set: listeners without it are plain"
    for listener in said.get(_PROTOCOLS, "").split(","):
        name, _, protocol = listener.partition(":")
        if name and protocol not in _ENCRYPTED:
            yield f"listener {name} is {protocol}"


def plain_postgres(one: Object) -> Iterator[str]:
    """Yield what lets a plain connection in: a line of pg_hba.conf, or a server without TLS or without that file."""
    for line in (_data(one, "pg_hba.conf") or "").splitlines():
        if line.split()[:1] and line.split()[0] in _PLAIN:
            yield f"pg_hba.conf takes plain connections: {line.strip()}"
    if one["kind"] == "StatefulSet" and (one["metadata"].get("labels") or {}).get(NAME) == "postgres":
        (container,) = one["spec"]["template"]["spec"]["containers"]
        said = dict(word.split("=", 1) for word in container.get("args") or () if "=" in word)
        if said.get("ssl") != "on":
            yield "the server runs without ssl=on"
        if "hba_file" not in said:
            yield "the server has its own pg_hba.conf, which takes plain connections"


def _data(one: Object, name: str) -> str | None:
    return (one.get("data") or {}).get(name) if one["kind"] == "ConfigMap" else None
