"""No value of a Secret is told by a chart, another object or the program's output; a key of an authority by nobody."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.infra.platform import PLAIN, Deployed, deploy_once, settings

PUBLIC = {"username", "rootUser", "AWS_ACCESS_KEY_ID", "PGUSER", "ca.crt", "tls.crt"}
"""Keys of names and of certificates."""
PIPELINES = {"user_counts": {"result_store": True}, "clicks": {"job": "own.clicks", "result_store": True}}
LOGIN = {"credentials_secret": "vault/kafka", "ca_secret": "vault/kafka-ca"}
STORE = {"endpoint": "https://s3.example", "credentials_secret": "vault/s3", "session_token": True}
DEPLOYED: dict[str, dict[str, Any]] = {
    "secured": {"profile": "production", "security": {"campaigns": True}},
    "plain": {"profile": "production", "security": PLAIN},
    "servers of others": {
        "kafka": {"external": "b.example:9093", "security": LOGIN},
        "object_store": {"external": STORE},
        "result_store": {"external": {"host": "db", "credentials_secret": "vault/db"}},
    },
}


def made(name: str) -> Deployed:
    return deploy_once(settings(pipelines=PIPELINES, **DEPLOYED[name]))


@pytest.mark.parametrize("name", DEPLOYED)
def test_no_value_of_a_secret_is_told(name: str) -> None:
    one = made(name)
    values = {
        form
        for secret in one.engine.of("Secret")
        for key, value in one.secret(secret).items()
        if key not in PUBLIC
        for form in (value, base64.b64encode(value.encode()).decode())
    }
    assert len(values) > 3
    told = str([each.inputs for each in one.engine.registered if not each.kind.endswith(":Secret")]) + str(one.platform)
    assert not [value for value in values if value in told]
    assert "PRIVATE KEY" not in told


def test_the_key_of_an_authority_is_in_its_own_secret_alone_which_no_pod_mounts() -> None:
    one = made("secured")
    key = one.secret("platform-authority-0")["tls.key"].splitlines()[1]
    assert [name for name in one.engine.of("Secret") if key in str(one.secret(name))] == ["platform-authority-0"]
    assert "platform-authority" not in str([each.inputs for each in one.engine.of("Chart").values()])
