"""Listeners that take plain connections, as files and options of Kafka, PostgreSQL and MinIO say it."""

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
    "secrets": "has(object.data) ? [] : object.spec.template.spec.?volumes.orValue([]).filter(v, has(v.secret))",
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

_CERTIFICATES: Final = "--certs-dir"
_FILES: Final = ("public.crt", "private.key")
"""MinIO speaks TLS where it finds both, and plain HTTP without a word where one is missing."""
MINIO: Final = (
    "variables.said || object.metadata.name != 'minio' || has(object.data) || "
    f"('{_CERTIFICATES}' in variables.options && !variables.options.exists(o, o.startsWith('http://')) && "
    f"{[*_FILES]}.all(f, variables.secrets.exists(v, v.secret.?items.orValue([]).exists(i, i.path == f))))"
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


def plain_minio(one: Object, security: Security) -> Iterator[str]:
    """Yield what has a MinIO without TLS, or its drives speak to each other without."""
    labels = one["metadata"].get("labels") or {}
    if one["kind"] != "StatefulSet" or labels.get(NAME) != "minio" or (_is_said(one) and not security.object_store):
        return
    pod = one["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = container.get("args") or []
    if _CERTIFICATES not in options:
        yield f"the server has no {_CERTIFICATES}"
    yield from (f"the drives {each} speak plainly" for each in options if each.startswith("http://"))
    secrets = [each["secret"] for each in pod.get("volumes") or () if "secret" in each]
    there = {item["path"] for each in secrets for item in each.get("items") or ()}
    yield from (f"no Secret is mounted as {each}, so it speaks plainly" for each in _FILES if each not in there)


def _is_said(one: Object) -> bool:
    return (one["metadata"].get("annotations") or {}).get(PLAIN) == "true"


def _data(one: Object, name: str) -> str | None:
    return (one.get("data") or {}).get(name) if one["kind"] == "ConfigMap" else None
