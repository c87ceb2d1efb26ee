"""Settings and a mocked engine for the tests of the Pulumi program."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pulumi
from pulumi.runtime import mocks, rpc
from pulumi.runtime.proto import callback_pb2, source_pb2
from pulumi_kubernetes import Provider

from infra import assembly
from infra.settings import Settings, load
from infra.versions import SPARK_OPERATOR_CRDS

IMAGES = {
    name: f"effectively-once-{name}:0123456789ab" for name in ("spark", "spark-operator", "kafka", "minio", "postgres")
}

PLAIN = {"level": "each"}
"""Setting `security` of a stack whose servers take plain connections, but for those that are named beside it."""


def settings(**config: object) -> Settings:
    """Return the settings that a stack with this configuration has."""
    return load(config, IMAGES)


def crds(folder: Path) -> Path:
    """Return a folder below `folder` with a CRD of our operator's version and nothing else."""
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sparkapplications.sparkoperator.k8s.io"},
    }
    made = folder / "crds"
    made.mkdir(exist_ok=True)
    (made / "sparkapplications.yaml").write_text(f"{SPARK_OPERATOR_CRDS}\n{json.dumps(definition)}\n")
    return made


def with_crds(wanted: Settings, folder: Path) -> Settings:
    """Return settings that name a folder of CRDs."""
    operator = wanted.spark_operator.model_copy(update={"crds": str(folder)})
    return wanted.model_copy(update={"spark_operator": operator})


def secret_value(key: str, namespace: str = "") -> str:
    """Return the value that a Secret which is only read has below a key, as its data has it; `own` has others."""
    said = f"own-{key}" if namespace == "own" else f"found-{key}"
    return base64.b64encode(said.encode()).decode()


class Answers(mocks.Mocks):
    """Answers as if everything could be created, and every Secret that is only read were there."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Return id and outputs."""
        if args.resource_id:
            keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "ca.crt"]
            keys += ["rootUser", "rootPassword", "username", "password", "root"]
            return args.resource_id, {"data": {key: secret_value(key, args.resource_id.split("/")[0]) for key in keys}}
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        """Refuse: the program calls no functions of a provider."""
        raise AssertionError(f"unexpected call of {args.token}")


@dataclass(frozen=True)
class Registration:
    """What the engine was asked to make; `secret` are the inputs that it keeps encrypted.

    `parents_before` are the URNs of parents below which the state may have it.
    """

    urn: str
    kind: str
    name: str
    inputs: dict[str, Any]
    secret: frozenset[str]
    dependencies: tuple[str, ...]
    ignore_changes: tuple[str, ...]
    retained: bool
    transforms: tuple[str, ...]
    parents_before: tuple[str, ...]


class Engine(mocks.MockMonitor):
    """An engine that keeps what it was asked for, in order."""

    def __init__(self) -> None:
        super().__init__(Answers())
        self.registered: list[Registration] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Keep the request, answer as the mocks do."""
        answer = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        inputs = rpc.deserialize_properties(request.object)
        secret = {key for key, value in inputs.items() if rpc.is_rpc_secret(value)}
        self.registered.append(
            Registration(
                answer.urn,
                request.type,
                request.name,
                {key: rpc.unwrap_rpc_secret(value) for key, value in inputs.items()},
                frozenset(secret),
                tuple(request.dependencies),
                tuple(request.ignoreChanges),
                bool(request.retainOnDelete),
                tuple(one.token for one in request.transforms),
                tuple(one.spec.parentUrn for one in request.aliases),
            )
        )
        return answer

    def of(self, kind: str) -> dict[str, Registration]:
        """Return what was registered with a type that ends with `:kind`, by name and in order."""
        return {one.name: one for one in self.registered if one.kind.endswith(f":{kind}")}

    def below(self, one: Registration) -> set[str]:
        """Return the names of everything that `one` waits for, directly or not."""
        by_urn = {each.urn: each for each in self.registered}
        found: set[str] = set()
        waiting = [*one.dependencies]
        while waiting:
            dependency = by_urn.get(waiting.pop())
            if dependency is not None and dependency.name not in found:
                found.add(dependency.name)
                waiting += dependency.dependencies
        return found


@dataclass(frozen=True)
class Deployed:
    """What a run of the program left."""

    engine: Engine
    platform: dict[str, Any]

    def values(self, release: str) -> dict[str, Any]:
        """Return the values of a release."""
        values: dict[str, Any] = self.engine.of("Chart")[release].inputs["values"]
        return values

    def secret(self, name: str) -> dict[str, str]:
        """Return what a Secret holds."""
        found = self.engine.of("Secret")[name]
        assert "data" in found.secret, "the state keeps it encrypted"
        return {key: base64.b64decode(text).decode() for key, text in found.inputs["data"].items()}


def deploy(
    wanted: Settings,
    definitions: Path | None = None,
    brought: Mapping[str, str | None] | None = None,
    works: Callable[[str], None] | None = None,
) -> Deployed:
    """Run the assembly against a mocked engine and wait for every resource.

    `definitions` is a folder of CRDs that the settings get; `brought` namespaces were there before.
    """
    wanted = wanted if definitions is None else with_crds(wanted, definitions)
    engine = Engine()
    mocks.set_mocks(engine.mocks, project="effectively-once", stack="test", preview=False, monitor=engine)
    result: dict[str, Any] = {}

    def program() -> None:
        assembly.check(wanted)
        result.update(assembly.build(wanted, Provider("cluster", context="test"), brought or {}, works))

    with (
        mock.patch("pulumi.runtime.resource._get_callbacks", _callbacks),
        # Where in the program a resource was asked for takes a quarter of the time, and nobody looks.
        mock.patch("pulumi.runtime.resource._get_stack_trace", source_pb2.StackTrace),
    ):
        pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]
    return Deployed(engine, result)


_FOLDER = TemporaryDirectory()
_ONCE: list[tuple[Settings, Deployed]] = []


def deploy_once(wanted: Settings) -> Deployed:
    """Return a deployment by these settings, which is made for all tests once; not to be changed."""
    for known, deployed in _ONCE:
        if known == wanted:
            return deployed
    _ONCE.append((wanted, deploy(wanted, crds(Path(_FOLDER.name)))))
    return _ONCE[-1][1]


class _Callbacks:
    """Takes transforms as Pulumi's callback server does, which the mocks do not have; they are never called."""

    def register_transform(self, transform: Any) -> callback_pb2.Callback:
        return callback_pb2.Callback(token=transform.__name__, target="test")


async def _callbacks() -> _Callbacks:
    return _Callbacks()
