"""Values of the chart `streaming-pipeline`: one pipeline as a SparkApplication, with what it reads and writes."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, JsonValue, field_serializer, model_validator

from effectively_once.pipeline.settings import PipelineSettings
from infra import versions
from infra.values.clients import DatabaseClient, KafkaClient, S3Client
from infra.values.common import KubernetesName, ObjectName, Part, Port, Quantity, Resources, Schedule, Values
from infra.values.network import METRICS_PORT, PipelinePolicies

BucketName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
SettingName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
FIXED_PORTS = ("spark.driver.port", "spark.driver.blockManager.port", "spark.blockManager.port", "spark.ui.port")
"""Of Spark's own settings; any other way a port would be another one each time."""
OURS = (
    "AWS_",
    "KAFKA_",
    "PG",
    "SPARK_",
    "PYTHON",
    "EFFECTIVELY_ONCE_SPARK_CONF",
    "EFFECTIVELY_ONCE_WHEEL_DIGEST",
    "EFFECTIVELY_ONCE_IMAGE",
    "EFFECTIVELY_ONCE_EVENTS",
    "EFFECTIVELY_ONCE_METRICS_PORT",
)
"""Beginnings of variables that the chart, Spark or a Secret sets."""


class Driver(Part):
    """The driver's pod; its memory is heap plus overhead (Python and the JVM's own).

    Attributes:
        priority_class: None takes the cluster's default, as executors do.
    """

    cpu_request: Quantity = "200m"
    memory_mib: Annotated[int, Field(ge=256)] = 768
    memory_overhead_mib: Annotated[int, Field(ge=128)] = 384
    priority_class: ObjectName | None = None


class Executors(Part):
    """The executors' pods; `cores` are task slots, `cpu_request` is what a pod asks of its node."""

    count: Annotated[int, Field(ge=1, le=200)] = 2
    cores: Annotated[int, Field(ge=1, le=32)] = 1
    cpu_request: Quantity = "100m"
    memory_mib: Annotated[int, Field(ge=256)] = 640
    memory_overhead_mib: Annotated[int, Field(ge=128)] = 512


class EventLog(Part):
    """Spark's event log, for the history server.

    Attributes:
        enabled: there is one.
        bucket: None takes the pipeline's own.
        folder: below `spark-events/` in it, for this pipeline alone; None: `spark-events/` itself.
    """

    enabled: bool = False
    bucket: BucketName | None = None
    folder: KubernetesName | None = None


class Source(Part):
    """The input topic; sink topics, which are always made, take the replication too."""

    create: bool = True
    partitions: Annotated[int, Field(ge=1, le=1000)] = 4
    replication: Annotated[int, Field(ge=1, le=3)] = 1


class Service(Part):
    """A small HTTP service of the job beside it.

    Attributes:
        module: run as `python -m MODULE --host=0.0.0.0 --port=PORT --settings=FILE`, the file is the program's.
        port: of its Service and of its container.
    """

    module: ModuleName
    port: Port = 8080
    replicas: Annotated[int, Field(ge=0, le=20)] = 1
    resources: Resources = Resources(cpu_request="50m", memory_request="64Mi", memory_limit="256Mi")


class Backup(Part):
    """Copies of the chain by a CronJob.

    Attributes:
        schedule: when, in UTC; what cron understands.
        place: below which they lie, s3://bucket/prefix at the pipeline's endpoint.
        keep: how many stay.
        topics: with the rows of the sinks on Kafka.
        deadline_s: how long one may take.
    """

    schedule: Schedule
    place: Annotated[str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[A-Za-z0-9][A-Za-z0-9_./-]*$")]
    keep: Annotated[int, Field(ge=1, le=1000)] = 7
    topics: bool = False
    deadline_s: Annotated[int, Field(ge=60, le=86_400)] = 3_600


class SecretEnvironment(Part):
    """Variables of driver and executors from a Secret of the pipeline's own.

    Attributes:
        secret: its name; the release's namespace has it.
        variables: their names, and its keys.
        version: differs when one of the values does: driver and executors are started anew.
    """

    secret: KubernetesName
    variables: Annotated[tuple[VariableName, ...], Field(min_length=1)]
    version: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class SecretKey(Part):
    """One entry of a Secret of the release's namespace that is not the chart's."""

    secret: ObjectName
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]{1,253}$")]


class SparkSecret(Part):
    """What driver and executors know each other by, and the password of their page.

    Attributes:
        secret: of the release's namespace, with `rpc` and `page`.
        version: differs when these do: driver and executors are started anew.
    """

    secret: KubernetesName
    version: str


class StreamingPipelineValues(Values):
    """One pipeline.

    Attributes:
        name: of the SparkApplication and of everything beside it.
        module: a program of its own that is run with the settings file as its argument, instead of the declared job.
        settings: exactly what the pipeline reads; what is not set takes what its job declares.
        job_settings: what the program reads beside them, in the same file.
        spark_version: of the image; the operator asks for it.
        driver: resources of the driver.
        executors: resources of the executors.
        create_resources: of the job that makes bucket, topics and tables; it imports the pipeline's job.
        credentials_secret: Secret of the release's namespace with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
        database_secret: likewise with PGUSER and PGPASSWORD, where the settings name a database.
        kafka_client: how the broker is spoken to.
        s3: how the object store is spoken to.
        database_client: how the database is spoken to.
        spark_conf: added to, and winning over, the chart's own.
        spark_secret: driver and executors encrypt what they say to each other; None: they do not.
        event_log: Spark's event log.
        source: the input topic.
        service: a small HTTP service of the job, in the pipeline's image; None: there is none.
        backup: copies of the chain; None: there are none.
        suspend: True ends driver and executors, and keeps everything else.
        extra_files: Python files that come first on the path of driver and executors.
        environment: variables of driver and executors, such as addresses that the job calls; never credentials.
        secret_environment: those that are credentials.
        secrets: likewise, of Secrets that somebody else makes, by variable; a change of what is in them starts nothing.
        wheel_digest: stands for all code in the image (sha256); every declaration pins it.
        announce: write progress announcements to the containers' logs.
        ui: serve Spark's UI while the driver runs.
        metrics_port: the driver serves Prometheus metrics there; 0: nowhere.
        driver_grace_s: a driver told to stop finishes its epoch in this time.
        executor_grace_s: executors hold nothing that a repeat could not make again.
        retry_interval_s: the n-th start of a driver comes at least n times this after the start before.
        create_deadline_s: how long bucket and topics may take, retries included.
        network_policies: where its pods may connect to.
    """

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]
    module: ModuleName | None = None
    settings: PipelineSettings
    job_settings: dict[SettingName, JsonValue] = Field(default_factory=dict)
    spark_version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")] = versions.SPARK
    driver: Driver = Driver()
    executors: Executors = Executors()
    create_resources: Resources = Resources(cpu_request="50m", memory_request="160Mi", memory_limit="512Mi")
    credentials_secret: KubernetesName = "object-store-credentials"  # noqa: S105 - a name
    database_secret: KubernetesName | None = None
    kafka_client: KafkaClient = KafkaClient()
    s3: S3Client = S3Client()
    database_client: DatabaseClient = DatabaseClient()
    spark_conf: dict[str, str] = Field(default_factory=dict)
    spark_secret: SparkSecret | None = None
    event_log: EventLog = EventLog()
    source: Source = Source()
    service: Service | None = None
    backup: Backup | None = None
    suspend: bool = False
    extra_files: dict[FileName, str] = Field(default_factory=dict)
    environment: dict[VariableName, str] = Field(default_factory=dict)
    secret_environment: SecretEnvironment | None = None
    secrets: dict[VariableName, SecretKey] = Field(default_factory=dict)
    wheel_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    announce: bool = False
    ui: bool = True
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = METRICS_PORT
    driver_grace_s: Annotated[int, Field(ge=1, le=600)] = 30
    executor_grace_s: Annotated[int, Field(ge=0, le=600)] = 5
    retry_interval_s: Annotated[int, Field(ge=1, le=600)] = 1
    create_deadline_s: Annotated[int, Field(ge=30, le=3600)] = 300
    network_policies: PipelinePolicies = PipelinePolicies()

    @field_serializer("settings")
    def _what_is_set(self, settings: PipelineSettings) -> dict[str, Any]:
        """Leave out what is not set: a default written down would win over what the job declares."""
        return settings.model_dump(mode="json", exclude_unset=True)

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if (self.settings.database is None) != (self.database_secret is None):
            raise ValueError("settings.database and databaseSecret belong together: set both or none")
        secret = [key for key in self.spark_conf if "secret" in key.lower() or "password" in key.lower()]
        if secret:
            raise ValueError(f"sparkConf holds {secret[0]!r}: credentials come from credentialsSecret, never from conf")
        self._check_variables()
        for key in FIXED_PORTS:
            if not 0 < int(text if (text := self.spark_conf.get(key, "1")).isdecimal() else 0) <= 65535:
                raise ValueError(f"sparkConf.{key}: a port from 1 to 65535 is allowed, got {text!r}: policies name it")
        return self

    def _check_variables(self) -> None:
        environment = (*self.environment, *(self.secret_environment.variables if self.secret_environment else ()))
        for field, names in (("environment", environment), ("secrets", self.secrets)):
            if taken := [name for name in names if name.startswith(OURS)]:
                raise ValueError(f"{field} holds {taken[0]!r}, which is set already: by the chart, Spark or a Secret")
        if twice := [name for name in self.secrets if name in environment]:
            raise ValueError(f"secrets holds {twice[0]!r}, and environment too: leave it out of one of them")
