"""The platform as a whole: what is made, in which order, and what is told about it.

Order: namespaces -> object store -> Kafka -> result store -> Spark operator -> pipelines -> history server. What does
not need each other is made at the same time: object store, Kafka, result store and operator wait for the namespaces
and passwords only, a pipeline and what watches wait for what they use, the history server for the bucket that the
pipelines make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import pulumi
from pydantic import ValidationError

from infra.components import (
    admission,
    authority,
    clients,
    crds,
    data_plane,
    history_server,
    image_policy,
    kafka,
    kafka_security,
    listener_policy,
    monitoring,
    network,
    object_security,
    object_store,
    priority_classes,
    result_security,
    result_store,
    spark_operator,
    spark_secrets,
    streaming_pipeline,
)
from infra.components.credentials import OBJECT_STORE, Credentials
from infra.components.namespaces import Namespaces, names
from infra.settings import Settings, SettingsError, explain


def check(settings: Settings) -> None:
    """Make the values of every chart and look at the CRDs, so that nothing is created when one of them is impossible.

    Raises SettingsError with one line per wrong value.
    """
    parts: dict[str, Callable[[], object]] = {
        "kafka": lambda: kafka.values(settings),
        "object_store": lambda: object_store.values(settings),
        "result_store": lambda: result_store.values(settings),
        "spark_operator": lambda: spark_operator.values(settings),
        "history_server": lambda: history_server.values(settings),
        "monitoring": lambda: monitoring.values(settings),
    }
    wrong: list[str] = []
    for where, make in parts.items():
        wrong += _errors(where, make)
    if not wrong:  # pipelines ask where broker and store are
        for name, pipeline in settings.pipelines.items():
            wrong += _errors(f"pipelines.{name}", partial(streaming_pipeline.values, settings, pipeline))
        wrong += admission.wrong_secrets(settings)
    wrong += crds.find_wrong(settings)
    wrong += authority.find_wrong(settings)
    if wrong:
        raise SettingsError(wrong)


def _errors(where: str, make: Callable[[], object]) -> list[str]:
    try:
        make()
    except ValidationError as error:
        return explain(error, where)
    return []


def platform(settings: Settings) -> dict[str, Any]:
    """Return the stack output `platform`: where everything is, by name; plain JSON types and no secret."""
    store = asdict(object_store.outputs(settings))
    of_owner = settings.namespace if settings.security.object_store else settings.pipelines_namespace
    results, history = result_store.outputs(settings), history_server.outputs(settings)
    return {
        "profile": settings.profile,
        "namespaces": {
            "platform": settings.namespace,
            "operator": None if settings.spark_operator.installed else settings.operator_namespace,
            "pipelines": settings.pipelines_namespace,
        },
        "kafka": asdict(kafka.outputs(settings)),
        "object_store": {**store, "secret": OBJECT_STORE, "secret_namespace": of_owner},
        "result_store": asdict(results) if results else None,
        "history_server": asdict(history) if history else None,
        "monitoring": settings.monitoring.enabled and not settings.monitoring.operator_objects,
        "pipelines": {
            name: streaming_pipeline.values(settings, pipeline).to_helm()
            for name, pipeline in settings.pipelines.items()
        },
        "images": settings.images.references(),
    }


def build(
    settings: Settings,
    provider: pulumi.ProviderResource,
    brought: Mapping[str, str | None],
    works: Callable[[str], None] | None = None,
    *,
    policies: bool = True,
) -> dict[str, Any]:
    """Register everything that `check` found possible with the engine, and return the output `platform`.

    `brought` are namespaces that were there before this program, with the level of pod security that they enforce.
    `works` waits until the pipeline of a name does; without it one that runs will do. `policies`: the cluster knows
    ValidatingAdmissionPolicies.
    """
    opts = pulumi.ResourceOptions(providers={"kubernetes": provider})
    namespaces = Namespaces(settings, brought, opts)
    if policies:
        admission.Admission(settings, opts)
        image_policy.ImagePolicy(settings, opts)
    credentials = Credentials(settings, [namespaces], opts)
    classes = priority_classes.PriorityClasses(settings, opts)
    ready: list[pulumi.Resource] = [namespaces, classes, credentials]
    ready.append(clients.Clients(settings, [namespaces], opts))
    ready.append(spark_secrets.SparkSecrets(settings, credentials.root, [namespaces], opts))
    signs = authority.Authority(settings, [namespaces], opts)
    ready.append(kafka_security.KafkaSecurity(settings, credentials.root, signs, [namespaces], opts))
    ready.append(result_security.ResultSecurity(settings, credentials.root, signs, [namespaces], opts))
    ready.append(object_security.ObjectSecurity(settings, credentials.root, signs, [namespaces], opts))
    store, broker = object_store.ObjectStore(settings, ready, opts), kafka.Kafka(settings, ready, opts)
    operator = spark_operator.SparkOperator(settings, [namespaces, classes], opts)
    needed: list[pulumi.Resource] = [*ready, store, broker, operator]
    results = result_store.ResultStore(settings, ready, opts)
    # Before the pipelines: what keeps one from starting is told.
    watch = monitoring.Monitoring(settings, needed, opts)
    if policies:
        data_plane.DataPlane(settings, [store, broker, results, watch], opts)
        listener_policy.ListenerPolicy(settings, [store, broker, results], opts)
    pipelines: list[pulumi.Resource] = [
        streaming_pipeline.StreamingPipeline(settings, one, [*needed, results], opts, works)
        for one in settings.pipelines.values()
    ]
    history = history_server.HistoryServer(settings, [*needed, *pipelines], opts)
    network.DefaultDeny(settings, names(settings), brought, [*needed, results, *pipelines, history, watch], opts)
    return platform(settings)
