"""Listeners that take plain connections, as Kafka's and PostgreSQL's own files say it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from infra.policy.pods import NAME, Object
from infra.settings.security import Security

PLAIN: Final = "effectively-once/plain-listeners"
"""Annotation of what takes plain connections because nobody asks for others."""
_PROTOCOLS: Final = "listener.security.protocol.map"
_ENCRYPTED: Final = ("SSL", "SASL_SSL")
_HOST: Final = ("host", "hostnossl", "hostgssenc", "hostnogssenc")
"""Lines of pg_hba.conf that take connections without TLS; `local` is a socket, which does not leave the pod."""
VARIABLES: Final = {
    "said": f"has(object.metadata.annotations) && object.metadata.annotations[?'{PLAIN}'].orValue('') == 'true'",
    "properties": "has(object.data) ? object.data[?'server.properties'].orValue('') : ''",
    "lines": "has(object.data) ? object.data[?'pg_hba.conf'].orValue('').split('\\n') : []",
    "options": "has(object.data) ? [] : object.spec.template.spec.containers[0].?args.orValue([])",
}
"""What the expressions below use."""
KAFKA: Final = (
    "variables.said || variables.properties == '' || "
    r"variables.properties.matches(r'(?m)^listener\.security\.protocol\.map=(\w+:(SASL_)?SSL(,|$))+$')"
)
POSTGRES: Final = (
    "variables.said || (variables.lines.all(l, "
    rf"!l.matches(r'^\s*({'|'.join(_HOST)})\s')) && (object.metadata.name != 'postgres' || has(object.data) || "
    "('ssl=on' in variables.options && variables.options.exists(o, o.startsWith('hba_file=')))))"
)


def plain_kafka(one: Object, security: Security) -> Iterator[str]:
    """Yield listeners of a broker's or controller's properties whose protocol encrypts nothing."""
    properties = _data(one, "server.properties")
    if properties is None or (_is_said(one) and not security.kafka):
        return
    said = dict(line.strip().split("=", 1) for line in properties.splitlines() if "=" in line and line[:1] != "#")
    if _PROTOCOLS not in said:
        yield f"{_PROTOCOLS} is not set: listeners without it are plain"
    for listener in said.get(_PROTOCOLS, "").split(","):
        name, _, protocol = listener.partition(":")
        if name and protocol not in _ENCRYPTED:
            yield f"listener {name} is {protocol}"


def plain_postgres(one: Object, security: Security) -> Iterator[str]:
    """Yield what lets a plain connection in: a line of pg_hba.conf, or a server without TLS or without that file."""
    if _is_said(one) and not security.result_store:
        return
    for line in (_data(one, "pg_hba.conf") or "").splitlines():
        if line.split()[:1] and line.split()[0] in _HOST:
            yield f"pg_hba.conf takes plain connections: {line.strip()}"
    if one["kind"] == "StatefulSet" and (one["metadata"].get("labels") or {}).get(NAME) == "postgres":
        (container,) = one["spec"]["template"]["spec"]["containers"]
        said = dict(word.split("=", 1) for word in container.get("args") or () if "=" in word)
        if said.get("ssl") != "on":
            yield "the server runs without ssl=on"
        if "hba_file" not in said:
            yield "the server has its own pg_hba.conf, which takes plain connections"


def _is_said(one: Object) -> bool:
    return (one["metadata"].get("annotations") or {}).get(PLAIN) == "true"


def _data(one: Object, name: str) -> str | None:
    return (one.get("data") or {}).get(name) if one["kind"] == "ConfigMap" else None
