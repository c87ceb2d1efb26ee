"""How pods speak to broker and stores that are somebody else's: what charts are told, and the Secrets they name."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.components.credentials import pick
from infra.components.derived import version
from infra.components.secret import make_secret
from infra.settings import Pipeline, Settings
from infra.values.clients import DatabaseClient, KafkaClient, S3Client, WebIdentity

OBJECT_STORE_CA: Final = "object-store-certificates"
DATABASE_CA: Final = "result-store-certificates"
KAFKA_SUFFIX: Final = "-kafka"
DATABASE_SUFFIX: Final = "-result-store"
"""Behind a pipeline's name: the Secret with its login."""
CA: Final = "ca.crt"
_MODULES: Final = {"PLAIN": "plain.PlainLoginModule"}


def kafka(settings: Settings, name: str) -> KafkaClient:
    """Return how the pipeline of that name speaks to the broker."""
    security = settings.kafka.security
    if settings.security.kafka:
        secret = f"{name}{KAFKA_SUFFIX}"
        return KafkaClient(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", secret=secret, version=version(settings))
    if security is None:
        return KafkaClient()
    return KafkaClient(
        protocol=security.protocol,
        mechanism=security.mechanism if security.has_login else None,
        secret=f"{name}{KAFKA_SUFFIX}" if security.has_login or security.ca_secret else None,
    )


def object_store(settings: Settings) -> S3Client:
    """Return how everybody speaks to the object store."""
    external = settings.object_store.external
    if external is None:
        if not settings.security.object_store:
            return S3Client()
        # Keys are another Secret then, or the same one with others in it.
        return S3Client(certificates=OBJECT_STORE_CA, version=version(settings))
    identity = external.web_identity
    return S3Client(
        region=external.region,
        session_token=external.session_token,
        certificates=OBJECT_STORE_CA if external.ca_secret else None,
        web_identity=None if identity is None else WebIdentity(**identity.model_dump()),
    )


def database(settings: Settings, pipeline: Pipeline, name: str) -> DatabaseClient:
    """Return how a pipeline speaks to the database; nothing where it has no tables."""
    external = settings.result_store.external
    if pipeline.result_store and settings.security.result_store:
        secret = f"{name}{DATABASE_SUFFIX}"
        return DatabaseClient(mode="verify-full", certificates=secret, version=version(settings))
    if external is None or not pipeline.result_store:
        return DatabaseClient()
    return DatabaseClient(mode=external.ssl_mode, certificates=DATABASE_CA if external.ca_secret else None)


def jaas(mechanism: str, username: str, password: str) -> str:
    """Return a login as the JVM reads it from a file."""
    module = _MODULES.get(mechanism, "scram.ScramLoginModule")
    told = (f"{key}={_quote(value)}" for key, value in (("username", username), ("password", password)))
    return f"KafkaClient {{ org.apache.kafka.common.security.{module} required {' '.join(told)}; }};\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def login(mechanism: str, username: str, password: str) -> dict[str, str]:
    """Return the data of the Secret of a login, in base64."""
    told = {"username": username, "password": password, "jaas.conf": jaas(mechanism, username, password)}
    return {key: encode(text) for key, text in told.items()}


def encode(text: str) -> str:
    """Return a text as a Secret's data has it."""
    return base64.b64encode(text.encode()).decode()


def _decode(data: Mapping[str, str], key: str) -> str:
    # What editors and `echo` put behind a password is no part of it.
    return base64.b64decode(data[key]).decode().rstrip("\n")


class Clients(pulumi.ComponentResource):
    """Copies of certificates and logins of external servers, where pods can mount them; nothing without any."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:Clients", "clients", None, opts)
        self._settings, self._after = settings, after
        self._read: dict[str, Secret] = {}
        store, results = settings.object_store.external, settings.result_store.external
        if store is not None and store.ca_secret is not None:
            self._certificates(OBJECT_STORE_CA, settings.pipelines_namespace, store.ca_secret)
            if settings.history_server.enabled:
                self._certificates(OBJECT_STORE_CA, settings.namespace, store.ca_secret)
        if results is not None and results.ca_secret is not None:
            self._certificates(DATABASE_CA, settings.pipelines_namespace, results.ca_secret)
        for pipeline in settings.pipelines.values():
            self._kafka(pipeline)
        self.register_outputs({})

    def _existing(self, reference: str) -> Secret:
        if reference not in self._read:
            options = pulumi.ResourceOptions(parent=self, depends_on=self._after)
            self._read[reference] = Secret.get(f"existing-{reference.replace('/', '-')}", reference, opts=options)
        return self._read[reference]

    def _certificates(self, name: str, namespace: str, reference: str) -> None:
        found = self._existing(reference)
        self._secret(name, namespace, found.data.apply(lambda data: pick(data, {CA: CA}, reference)))

    def _kafka(self, pipeline: Pipeline) -> None:
        security = self._settings.kafka.security
        if security is None:
            return
        name = pipeline.identity.replace("_", "-")
        parts: list[pulumi.Output[dict[str, str]]] = []
        if security.has_login:
            reference = pipeline.kafka_credentials_secret or security.credentials_secret or ""
            mechanism = security.mechanism

            def of(data: Mapping[str, str] | None) -> dict[str, str]:
                found = pick(data, {"username": "username", "password": "password"}, reference)
                return login(mechanism, _decode(found, "username"), _decode(found, "password"))

            parts.append(self._existing(reference).data.apply(of))
        if (ca := security.ca_secret) is not None:
            parts.append(self._existing(ca).data.apply(lambda data: pick(data, {CA: CA}, ca)))
        if parts:
            whole = pulumi.Output.all(*parts).apply(lambda found: {key: one[key] for one in found for key in one})
            self._secret(f"{name}{KAFKA_SUFFIX}", self._settings.pipelines_namespace, whole)

    def _secret(self, name: str, namespace: str, data: pulumi.Output[dict[str, str]]) -> None:
        opts = pulumi.ResourceOptions(parent=self, depends_on=self._after)
        make_secret(name, namespace, "clients", data, opts, called=f"{name}-{namespace}")
