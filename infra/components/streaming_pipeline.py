"""A pipeline: bucket and topics, then driver and executors that run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pulumi

from effectively_once.settings import PipelineSettings
from infra.components import kafka, object_store
from infra.components.credentials import OBJECT_STORE
from infra.components.release import common, release
from infra.settings import Pipeline, Settings
from infra.values.streaming_pipeline import Driver, EventLog, Executors, Source, StreamingPipelineValues

EXTERNAL_REPLICATION = 3  # what a broker that somebody runs can be expected to have


@dataclass(frozen=True)
class StreamingPipelineOutputs:
    """The values its chart was given."""

    values: dict[str, Any]


def kubernetes_name(pipeline: Pipeline) -> str:
    """Return the name of the pipeline's objects."""
    return pipeline.identity.replace("_", "-")


def values(settings: Settings, pipeline: Pipeline) -> StreamingPipelineValues:
    """Return the chart's values."""
    images = settings.images
    copies = EXTERNAL_REPLICATION if settings.kafka.external is not None else settings.kafka.nodes
    return StreamingPipelineValues(
        **common(settings, images.spark),
        name=kubernetes_name(pipeline),
        module=pipeline.module,
        settings=PipelineSettings(
            pipeline=pipeline.identity,
            topic=pipeline.topic,
            kafka_bootstrap=kafka.outputs(settings).bootstrap,
            s3_endpoint=object_store.outputs(settings).endpoint,
            s3_bucket=pipeline.bucket,
            shards=pipeline.shards,
            window_ms=pipeline.window_ms,
            lateness_ms=pipeline.lateness_ms,
            epoch_rows_max=pipeline.epoch_rows_max,
            start_patience_s=pipeline.start_patience_s,
        ),
        tools_image=images.tools,
        driver=Driver(**pipeline.driver.model_dump(exclude_none=True)),
        executors=Executors(**pipeline.executors.model_dump(exclude_none=True)),
        credentials_secret=OBJECT_STORE,
        spark_conf=pipeline.spark_conf,
        event_log=EventLog(enabled=settings.history_server.enabled, bucket=settings.object_store.bucket),
        source=Source(
            create=pipeline.create_topic,
            partitions=pipeline.partitions,
            replication=pipeline.replication or copies,
        ),
        suspend=pipeline.suspend,
        extra_files=pipeline.extra_files,
        # The tag of our image is a hash of its contents: it stands for the wheel where the builder left no digest.
        wheel_digest=images.wheel_digest or hashlib.sha256(images.spark.encode()).hexdigest(),
        announce=pipeline.announce,
    )


class StreamingPipeline(pulumi.ComponentResource):
    """A pipeline that runs, unless suspended. `after` has to hold broker, object store, operator and credentials."""

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        after: list[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        name = kubernetes_name(pipeline)
        super().__init__("effectively-once:platform:StreamingPipeline", name, None, opts)
        chart = values(settings, pipeline)
        self.outputs = StreamingPipelineOutputs(chart.to_helm())
        release(name, "streaming-pipeline", settings.pipelines_namespace, chart, parent=self, after=after)
        self.register_outputs({})
