"""Values as the deployment gives them: one of each chart, and the variants that change what is rendered."""

from __future__ import annotations

from typing import Any

from effectively_once.pipeline.settings import PipelineSettings
from infra.values.common import Storage, Toleration, Values
from infra.values.exposure import Exposure
from infra.values.history_server import HistoryServerValues
from infra.values.kafka import External, KafkaValues, Right
from infra.values.kafka import Security as KafkaSecurity
from infra.values.minio import External as MinioExternal
from infra.values.minio import Folder, MinioValues
from infra.values.minio import Security as MinioSecurity
from infra.values.monitoring import Alertmanager, MonitoringValues
from infra.values.network import METRICS_PORT, KafkaPolicies, Pods, WatchPolicies, kafka_metrics, operator_metrics
from infra.values.network import object_store as store_metrics
from infra.values.postgres import PostgresValues
from infra.values.postgres import Security as PostgresSecurity
from infra.values.spark_operator import SparkOperatorValues
from infra.values.streaming_pipeline import Backup, EventLog, StreamingPipelineValues
from tests.settings import pipeline_settings

IMAGE = "registry.example/effectively-once-x:0123"
WHEEL = "ab" * 32
COMMON: dict[str, Any] = {
    "image": IMAGE,
    "image_pull_secrets": ("pull",),
    "node_selector": {"disk": "fast"},
    "tolerations": (Toleration(key="stream", operator="Exists", effect="NoSchedule"),),
}
KAFKA_SECURITY = KafkaSecurity(
    tls_secret="kafka-tls",
    admin_secret="kafka-admin",
    users_secret="kafka-users",
    users={"orders": (Right(kind="topic", name="orders.", prefixed=True, operations=("READ", "WRITE")),)},
    grant_image="registry.example/spark:1",
    version="0-0",
)
MINIO_SECURITY = MinioSecurity(
    tls_secret="minio-tls-0-0",
    users_secret="minio-users-0",
    policies={"orders": (Folder(bucket="lake", folder="orders/"),)},
    users={"orders-0": "orders"},
    folders=(Folder(bucket="lake", folder="spark-events/orders/"),),
    grant_image="registry.example/spark:1",
)
POSTGRES_SECURITY = PostgresSecurity(
    tls_secret="postgres-tls-0-0",
    users_secret="postgres-users-0-0",
    users=("orders",),
    grant_image="registry.example/spark:1",
)


def pipeline(**changes: Any) -> StreamingPipelineValues:
    """Values of the pipeline of user counts."""
    settings = pipeline_settings(
        pipeline="user_counts",
        kafka_bootstrap="kafka.platform:9092",
        s3_endpoint="http://minio.platform:9000",
        s3_bucket="pipelines",
        epoch_rows_max=2_000_000,
    )
    given: dict[str, Any] = {
        **COMMON,
        "name": "user-counts",
        "settings": settings,
        "wheel_digest": WHEEL,
        **changes,
    }
    return StreamingPipelineValues(**given)


def with_database() -> PipelineSettings:
    """Settings of a pipeline with tables."""
    return pipeline().settings.model_copy(update={"database": "postgresql://postgres.platform:5432/results"})


EACH: dict[str, tuple[str, Values]] = {
    "kafka": ("kafka", KafkaValues(**COMMON, external=External(by="NodePort"))),
    "kafka-3": (
        "kafka",
        KafkaValues(**COMMON, nodes=3, storage=Storage(size="20Gi", storage_class="ssd", retain=True)),
    ),
    "kafka-3+3": (
        "kafka",
        KafkaValues(
            **COMMON,
            nodes=3,
            controllers=3,
            metrics_port=METRICS_PORT,
            network_policies=KafkaPolicies(watchers=(Pods(namespace="watch"),)),
        ),
    ),
    "kafka-secured": ("kafka", KafkaValues(**COMMON, security=KAFKA_SECURITY)),
    "minio": (
        "minio",
        MinioValues(
            **COMMON,
            external=MinioExternal(
                api=Exposure(by="LoadBalancer", host="s3.example", port=9000, node_port=30900),
                console=Exposure(by="NodePort", port=12001, node_port=30901),
            ),
        ),
    ),
    "minio-4": ("minio", MinioValues(**COMMON, nodes=4, spread="hard")),
    "minio-secured": ("minio", MinioValues(**COMMON, security=MINIO_SECURITY)),
    "minio-4-secured": ("minio", MinioValues(**COMMON, nodes=4, security=MINIO_SECURITY)),
    "postgres": ("postgres", PostgresValues(**COMMON)),
    "postgres-secured": ("postgres", PostgresValues(**COMMON, security=POSTGRES_SECURITY)),
    "spark-operator": ("spark-operator", SparkOperatorValues(**COMMON, namespaces=("pipelines", "more"))),
    "spark-operator-2": (
        "spark-operator",
        SparkOperatorValues(**COMMON, namespaces=("pipelines",), replicas=2, leader_election=True),
    ),
    "history-server": (
        "history-server",
        HistoryServerValues(
            **COMMON,
            s3_endpoint="https://s3.example",
            bucket="logs",
            external=Exposure(
                by="Ingress", host="history.example", port=443, node_port=30180, tls_secret="history-tls"
            ),
        ),
    ),
    "monitoring": ("monitoring", MonitoringValues(**COMMON, pipelines="pipelines")),
    "monitoring-all": (
        "monitoring",
        MonitoringValues(
            **COMMON,
            pipelines="pipelines",
            operator="more",
            kafka=("kafka-0.kafka-nodes:9404",),
            object_store="minio.platform.svc:9000",
            object_store_certificates="object-store-certificates",
            monitors=True,
            runbooks="https://docs.example/",
            alertmanager=Alertmanager(config_secret="alerts"),
            network_policies=WatchPolicies(
                clients=(Pods(namespace="grafana"),),
                operator=operator_metrics(),
                kafka=kafka_metrics(),
                object_store=store_metrics(),
            ),
        ),
    ),
    "pipeline": ("streaming-pipeline", pipeline()),
    "pipeline-all": (
        "streaming-pipeline",
        pipeline(
            event_log=EventLog(enabled=True),
            announce=True,
            backup=Backup(schedule="17 3 * * *", place="s3://copies/clicks"),
            extra_files={"job.py": "x = 1\n"},
            settings=with_database(),
            database_secret="database",
            spark_conf={"spark.sql.shuffle.partitions": "4"},
        ),
    ),
}
