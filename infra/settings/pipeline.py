"""One pipeline: what it reads and keeps, its driver and executors, and the service beside it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, JsonValue, SecretStr, model_validator

from infra.settings.field_types import (
    Bucket,
    Cidr,
    Identity,
    Job,
    KeyName,
    Label,
    Module,
    ObjectName,
    PinnedImage,
    Place,
    Port,
    Quantity,
    Schedule,
    SecretReference,
    Time,
    Topics,
)
from infra.settings.section import Section


class Driver(Section):
    """A driver's pod; None takes the chart's value. Memory is heap plus overhead (Python and the JVM's own)."""

    cpu_request: Quantity | None = None
    memory_mib: Annotated[int, Field(ge=256)] | None = None
    memory_overhead_mib: Annotated[int, Field(ge=128)] | None = None


class Executors(Driver):
    """The executors' pods; `cores` are task slots of one of them."""

    count: Annotated[int, Field(ge=1, le=200)] = 2
    cores: Annotated[int, Field(ge=1, le=32)] = 1


class Service(Section):
    """A small HTTP service of a job, in the pipeline's image; `<pipeline>-service` is its name in the cluster."""

    module: Module
    port: Port = 8080
    replicas: Annotated[int, Field(ge=0, le=20)] = 1


class Backup(Section):
    """Copies of the chain, taken while drivers run, of which the newest `keep` stay.

    Attributes:
        schedule: when, in UTC.
        place: below which they lie, in a bucket of the pipeline's object store; None: `backups/<identity>` in the
            pipeline's own.
        topics: with the rows of the sinks on Kafka, so that a backup can be gone on with whatever was published since.
        deadline_s: how long one may take.
    """

    schedule: Schedule
    place: Place | None = None
    keep: Annotated[int, Field(ge=1, le=1000)] = 7
    topics: bool = False
    deadline_s: Annotated[int, Field(ge=60, le=86_400)] = 3_600


class Outside(Section):
    """Where the code of a job connects to, besides broker and stores: pods of a namespace, or addresses."""

    namespace: Label | None = None
    addresses: tuple[Cidr, ...] = ()
    ports: Annotated[tuple[Port, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.namespace is None) == (not self.addresses):
            raise ValueError("either namespace or addresses have to be set")
        return self


class SealedVariable(Section):
    """A variable that was set with `--secret`; `sealed` is its ciphertext, which differs whenever it is set."""

    value: SecretStr
    sealed: str


class SecretKey(Section):
    """One entry of a Secret that is in the pipelines' namespace already; nobody but the pod's node reads it."""

    secret: ObjectName
    key: KeyName


class Pipeline(Section):
    """One pipeline. Its progress, transactional ids, consumer groups and output topics carry `identity`.

    Attributes:
        identity: `pipeline_prefix` and the pipeline's name; drivers of one identity fence each other.
        job: the module that declares it as `pipeline`, or `module:name`; with `wheel` its package unless set.
        module: a program of its own that is run with the settings file, instead of the declared job's driver.
        job_settings: what such a program, or the job, reads in that file beside the pipeline's settings.
        wheel: name of a wheel of yours that `make images WHEEL=` has put into an image: that image is run.
        image: whole reference of an image that you built from ours, or of one that ran here before; its tag has to be
            another one for other content.
        topic: read; `<pipeline_prefix>events` unless set. Several have commas between them.
        begins_at: where a new pipeline begins to read, such as `2026-03-01T00:00:00Z`; None: with all there is.
        create_topic: make the topic, with `partitions` and `replication` copies.
        replication: copies of every topic; 0 means as many as the broker has nodes, 3 with an external one.
        bucket: of chain, deltas, checkpoints and file sinks.
        shards: may change, but not of a job with state of Spark's own.
        window_ms: None takes what the job declares; fixed for the life of the pipeline.
        lateness_ms: likewise.
        standby: a second driver, with executors of its own, waits to take over within seconds.
        driver_grace_s: a driver that is replaced or suspended finishes its epoch in this time; None takes the chart's.
        result_store: its tables, and the catalog of lake ones, are in the platform's result store; both need it.
        service: a small HTTP service of the job beside it, such as one that answers from its tables.
        backup: copies of the chain by a CronJob; None: there are none.
        kafka_credentials_secret: a login of an external broker for this pipeline alone; None takes
            `kafka.security.credentials_secret`.
        egress: what the job's own code connects to; NetworkPolicies refuse all else but broker and stores.
        suspend: no driver and no executors; everything else stays.
        announce: write progress to the containers' logs.
        spark_conf: wins over the chart's.
        extra_files: Python files that come first on the path.
        environment: variables of driver and executors, such as addresses that the job calls, or credentials that were
            set with `--secret`.
        secret_environment: the latter, set apart; nobody sets it.
        secrets: variables of driver and executors from Secrets that somebody else makes, by variable.
    """

    identity: Identity
    job: Job
    module: Module | None = None
    job_settings: dict[str, JsonValue] = Field(default_factory=dict)
    wheel: Label | None = None
    image: PinnedImage | None = None
    topic: Topics
    begins_at: Time | None = None
    create_topic: bool = True
    partitions: Annotated[int, Field(ge=1, le=1000)] = 4
    replication: Annotated[int, Field(ge=0, le=3)] = 0
    bucket: Bucket
    shards: Annotated[int, Field(ge=1, le=256)] = 2
    window_ms: Annotated[int, Field(ge=1)] | None = None
    lateness_ms: Annotated[int, Field(ge=0)] | None = None
    idle_ms: Annotated[int, Field(ge=1)] | None = None
    sources: tuple[str, ...] = ()
    hold_max_ms: Annotated[int, Field(ge=1)] | None = None
    held_rows_max: Annotated[int, Field(ge=1, le=1 << 40)] | None = None
    epoch_rows_max: Annotated[int, Field(ge=1, le=5_000_000)] = 20_000
    shard_bytes_max: Annotated[int, Field(ge=1 << 20, le=1 << 40)] | None = None
    trusted_constraints: tuple[str, ...] = ()
    start_patience_s: Annotated[float, Field(ge=1, le=600)] = 60.0
    standby: bool = False
    # The next driver has to run within the ten minutes that Pulumi waits.
    driver_grace_s: Annotated[int, Field(ge=1, le=300)] | None = None
    result_store: bool = False
    driver: Driver = Driver()
    executors: Executors = Executors()
    service: Service | None = None
    backup: Backup | None = None
    kafka_credentials_secret: SecretReference | None = None
    egress: tuple[Outside, ...] = ()
    suspend: bool = False
    announce: bool = False
    spark_conf: dict[str, str] = Field(default_factory=dict)
    extra_files: dict[str, str] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    secret_environment: dict[str, SealedVariable] = Field(default_factory=dict)
    secrets: dict[str, SecretKey] = Field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics it reads."""
        return (*self.topic.split(","),)

    @property
    def backups(self) -> tuple[str, str]:
        """Bucket and folder of its backups."""
        place = (
            f"{self.bucket}/backups/{self.identity}"
            if self.backup is None or self.backup.place is None
            else (self.backup.place.removeprefix("s3://"))
        )
        bucket, _, folder = place.partition("/")
        return bucket, f"{folder}/"

    @model_validator(mode="after")
    def _standby_is_ours(self) -> Self:
        if self.standby and self.module is not None:
            raise ValueError("standby is for declared jobs: a program of its own (module) knows no lease")
        return self

    @model_validator(mode="after")
    def _backups_lie_apart(self) -> Self:
        bucket, folder = self.backups
        if bucket == self.bucket and folder.startswith(f"{self.identity}/"):
            raise ValueError(
                f"backup.place lies among the pipeline's own objects, below s3://{bucket}/{self.identity}/, and would "
                "go with them: name another prefix, or better another bucket"
            )
        return self
