"""A pipeline: bucket and topics, then driver and executors that run."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi

from effectively_once.pipeline.settings import PipelineSettings
from infra.components import (
    clients,
    kafka,
    network,
    object_security,
    object_store,
    own_secret,
    result_security,
    result_store,
    spark_secrets,
)
from infra.components.release import common, drop_none, release
from infra.settings import Pipeline, Settings
from infra.values.network import PipelinePolicies, block
from infra.values.streaming_pipeline import (
    Backup,
    Driver,
    EventLog,
    Executors,
    SecretKey,
    Service,
    Source,
    StreamingPipelineValues,
)

_NAMED_BY_CONTENTS = re.compile(r"(effectively-once-[^:@]+:[0-9a-f]{12})@")
EXTERNAL_REPLICATION = 3  # what a broker that somebody runs can be expected to have


@dataclass(frozen=True)
class StreamingPipelineOutputs:
    """The values its chart was given."""

    values: dict[str, Any]


def kubernetes_name(pipeline: Pipeline) -> str:
    """Return the name of the pipeline's objects."""
    return pipeline.identity.replace("_", "-")


def code(settings: Settings, pipeline: Pipeline) -> tuple[str, str]:
    """Return the image with a pipeline's code, and a digest (sha256, hex) of all its code, which epochs pin (R3)."""
    images = settings.images
    image = pipeline.image or (images.spark if pipeline.wheel is None else images.jobs[pipeline.wheel])
    # The tag of ours is a hash of all that is in it: registry and digest, which another push may change, add nothing.
    # Whichever setting names an image, its digest is the same, so that an image of before finishes the epoch that it
    # declared. Whoever names images otherwise may move a tag, and a digest says so.
    name = image.rpartition("/")[2]
    ours = _NAMED_BY_CONTENTS.match(name)
    digest = _sha256(ours[1] if ours else name)
    if pipeline.extra_files:
        digest = _sha256(digest + json.dumps(pipeline.extra_files, sort_keys=True))
    return image, digest


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def values(settings: Settings, pipeline: Pipeline) -> StreamingPipelineValues:
    """Return the chart's values."""
    image, digest = code(settings, pipeline)
    database = result_store.outputs(settings) if pipeline.result_store else None
    name = kubernetes_name(pipeline)
    copies = EXTERNAL_REPLICATION if settings.kafka.external is not None else settings.kafka.nodes
    return StreamingPipelineValues(
        **common(settings, image),
        name=name,
        module=pipeline.module,
        job_settings=pipeline.job_settings,
        settings=PipelineSettings(
            pipeline=pipeline.identity,
            topic=pipeline.topic,
            job=pipeline.job,
            kafka_bootstrap=kafka.outputs(settings).bootstrap,
            s3_endpoint=object_store.outputs(settings).endpoint,
            s3_bucket=pipeline.bucket,
            shards=pipeline.shards,
            epoch_rows_max=pipeline.epoch_rows_max,
            start_patience_s=pipeline.start_patience_s,
            **drop_none(
                begins_at=pipeline.begins_at,
                window_ms=pipeline.window_ms,
                lateness_ms=pipeline.lateness_ms,
                idle_ms=pipeline.idle_ms,
                sources=pipeline.sources or None,
                hold_max_ms=pipeline.hold_max_ms,
                held_rows_max=pipeline.held_rows_max,
                shard_bytes_max=pipeline.shard_bytes_max,
                trusted_constraints=pipeline.trusted_constraints or None,
                database=database.endpoint if database else None,
                standby=pipeline.standby or None,
            ),
        ),
        driver=Driver(
            **pipeline.driver.model_dump(exclude_none=True), priority_class=settings.priority_class("drivers")
        ),
        executors=Executors(**pipeline.executors.model_dump(exclude_none=True)),
        credentials_secret=object_security.secret(settings, name),
        database_secret=result_security.secret(settings, name) if database else None,
        kafka_client=clients.kafka(settings, name),
        s3=clients.object_store(settings),
        database_client=clients.database(settings, pipeline, name),
        spark_conf=pipeline.spark_conf,
        spark_secret=spark_secrets.values(settings, name),
        event_log=EventLog(
            enabled=settings.history_server.enabled,
            bucket=settings.object_store.bucket,
            folder=object_security.event_log_folder(settings, name),
        ),
        source=Source(
            create=pipeline.create_topic,
            partitions=pipeline.partitions,
            replication=pipeline.replication or copies,
        ),
        service=None if pipeline.service is None else Service(**pipeline.service.model_dump()),
        backup=_backup(pipeline),
        suspend=pipeline.suspend,
        extra_files=pipeline.extra_files,
        environment=pipeline.environment,
        secret_environment=own_secret.values(name, pipeline),
        secrets={variable: SecretKey(**one.model_dump()) for variable, one in pipeline.secrets.items()},
        wheel_digest=digest,
        announce=pipeline.announce,
        network_policies=_policies(settings, pipeline),
        **drop_none(driver_grace_s=pipeline.driver_grace_s),
    )


def _backup(pipeline: Pipeline) -> Backup | None:
    if pipeline.backup is None:
        return None
    bucket, folder = pipeline.backups
    given = pipeline.backup.model_dump(exclude={"place"})
    return Backup(place=f"s3://{bucket}/{folder.removesuffix('/')}", **given)


def _policies(settings: Settings, pipeline: Pipeline) -> PipelinePolicies:
    return PipelinePolicies(
        **network.names(settings),
        api_server=network.api_server(settings),
        kafka=kafka.egress(settings),
        object_store=object_store.egress(settings),
        result_store=result_store.egress(settings),
        egress=tuple(map(network.outside, pipeline.egress)),
        viewers=tuple(map(block, settings.network_policies.api_server)),
    )


class StreamingPipeline(pulumi.ComponentResource):
    """A pipeline that runs, unless suspended.

    Args:
        settings: of the deployment.
        pipeline: one of its pipelines.
        after: has to hold broker, object store, operator and credentials.
        opts: of the resource.
        works: waits until the pipeline of that name does, and raises when it does not.

    """

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        after: list[pulumi.Resource],
        opts: pulumi.ResourceOptions,
        works: Callable[[str], None] | None = None,
    ) -> None:
        name = kubernetes_name(pipeline)
        super().__init__("effectively-once:platform:StreamingPipeline", name, None, opts)
        chart = values(settings, pipeline)
        self.outputs = StreamingPipelineOutputs(chart.to_helm())
        if (reference := chart.secret_environment) is not None:
            after = [*after, own_secret.make(reference.secret, settings, pipeline, parent=self, after=after)]
        made = release(name, "streaming-pipeline", settings.pipelines_namespace, chart, parent=self, after=after)
        outputs: dict[str, Any] = {}
        # A program of its own tells nothing of epochs.
        if works is not None and not pipeline.suspend and pipeline.module is None:
            # The chart's objects are known once they are ready. The engine waits for outputs, and one that raises fails
            # the update.
            wait = partial(_in_a_thread, partial(works, name))
            outputs["works"] = made.resources.apply(lambda _: wait())
        self.register_outputs(outputs)


async def _in_a_thread(wait: Callable[[], None]) -> bool:
    """Wait in a thread of its own: Pulumi's are for its calls, and are few."""
    with ThreadPoolExecutor(1) as pool:
        await asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, wait)
    return True
