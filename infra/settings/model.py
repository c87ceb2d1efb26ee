"""The settings of a deployment, typed. Units are in the names; None takes the chart's own value."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, SecretStr, model_validator

PROJECT = "effectively-once"
JOB_IMAGE = "job-"
"""Before the name of a user's wheel, where its image stands among ours."""

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Label = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Bucket = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
Endpoint = Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
Bootstrap = Annotated[str, Field(pattern=r"^[^\s:,]+:\d+(,[^\s:,]+:\d+)*$")]
SecretReference = Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9]*/[a-z0-9][-a-z0-9.]*$")]
Job = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$")]
Module = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Cidr = Annotated[str, AfterValidator(lambda text: str(ip_network(text)))]
"""Addresses, as `10.0.0.0/8`."""
NodePort = Annotated[int, Field(ge=30000, le=32767)]


def _pinned(reference: str) -> str:
    tag = reference.rpartition("/")[2].partition(":")[2]
    if not tag or tag == "latest" or reference.split() != [reference]:
        raise ValueError(
            f"a reference with a digest, or a tag other than `latest`, is allowed, got {reference!r}: what runs is "
            "pinned with every epoch"
        )
    return reference


PinnedImage = Annotated[str, AfterValidator(_pinned)]


class Section(BaseModel):
    """A group of settings: unknown names are refused, unchangeable once read."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(Section):
    """What a container asks for, in Kubernetes' own quantities."""

    cpu_request: Quantity
    memory_request: Quantity
    memory_limit: Quantity


class Storage(Section):
    """Volumes of all StatefulSets.

    Attributes:
        storage_class: None takes the cluster's default class.
        delete_volumes: `pulumi destroy` removes data, passwords and the platform's namespace too.
    """

    storage_class: str | None = None
    delete_volumes: bool = False


class KafkaSecurity(Section):
    """How an external broker is spoken to; every Secret is `namespace/name`, and is copied to the pipelines.

    Attributes:
        protocol: as Kafka names it: TLS, a login, or both.
        mechanism: of the login.
        credentials_secret: with `username` and `password`, for a login.
        ca_secret: with `ca.crt`, where the broker's certificate is its own; None: those that everybody trusts.
    """

    protocol: Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "SASL_SSL"
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = "SCRAM-SHA-512"
    credentials_secret: SecretReference | None = None
    ca_secret: SecretReference | None = None

    @property
    def has_login(self) -> bool:
        """Whether the broker asks who it is."""
        return self.protocol.startswith("SASL_")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.ca_secret is not None and not self.protocol.endswith("SSL"):
            raise ValueError(f"protocol {self.protocol} shows no certificate: leave ca_secret out, or name SASL_SSL")
        if self.credentials_secret is not None and not self.has_login:
            raise ValueError("protocol SSL has no login: leave credentials_secret out, or name SASL_SSL")
        return self


class Kafka(Section):
    """The broker; with `external` (host:port[,host:port]) none is made, and the other fields mean nothing.

    Attributes:
        clients: namespaces whose pods may connect to it, besides the pipelines' own.
        security: of an external one; None: plain text.
    """

    external: Bootstrap | None = None
    nodes: Literal[1, 3] = 1
    controllers: Literal[0, 3] = 0
    session_timeout_ms: Annotated[int, Field(ge=2000, le=60_000)] | None = None
    heap_mib: Annotated[int, Field(ge=192)] | None = None
    storage_size: Quantity = "8Gi"
    resources: Resources | None = None
    clients: tuple[Label, ...] = ()
    security: KafkaSecurity | None = None


class WebIdentity(Section):
    """A role that pods become with the token of their service account, in the place of keys.

    Attributes:
        role: `arn:...`; it trusts the cluster's issuer of tokens, and `<namespace>-pipelines:<pipeline>`.
        audience: that the token is for.
        issuer: URL of the STS; None: AWS's own of the region.
    """

    role: Annotated[str, Field(min_length=1)]
    audience: Annotated[str, Field(min_length=1)] = "sts.amazonaws.com"
    issuer: Endpoint | None = None


class ExternalObjectStore(Section):
    """An S3 endpoint that is there already; every Secret is `namespace/name`.

    Attributes:
        endpoint: http://host:port or https://host:port.
        region: that requests are signed for.
        credentials_secret: with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
        session_token: that Secret has AWS_SESSION_TOKEN too. When it expires, pipelines end.
        web_identity: in the place of that Secret.
        ca_secret: with `ca.crt`, where the store's certificate is its own; None: those that everybody trusts.
    """

    endpoint: Endpoint
    region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")] = "us-east-1"
    credentials_secret: SecretReference | None = None
    session_token: bool = False
    web_identity: WebIdentity | None = None
    ca_secret: SecretReference | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.credentials_secret is None) == (self.web_identity is None):
            raise ValueError("either credentials_secret or web_identity has to be set")
        if self.session_token and self.credentials_secret is None:
            raise ValueError("session_token belongs to credentials_secret: leave it out")
        if self.ca_secret is not None and not self.endpoint.startswith("https://"):
            raise ValueError(f"endpoint {self.endpoint} shows no certificate: leave ca_secret out, or write https://")
        return self


class ObjectStore(Section):
    """The object store; `bucket` is that of every pipeline that names no other, and of the event logs.

    Attributes:
        clients: namespaces whose pods may connect to ours, besides the pipelines' own.
    """

    external: ExternalObjectStore | None = None
    bucket: Bucket = PROJECT
    storage_size: Quantity = "8Gi"
    resources: Resources | None = None
    clients: tuple[Label, ...] = ()


class ExternalResultStore(Section):
    """A PostgreSQL that is there already; every Secret is `namespace/name`.

    Attributes:
        credentials_secret: with `username` and `password`.
        ssl_mode: as libpq names it; None takes libpq's own: encrypted where the server can, and by whomever.
        ca_secret: with `ca.crt`, for `verify-ca` and `verify-full`.
    """

    host: Annotated[str, Field(pattern=r"^[^\s:/]+$")]
    port: Port = 5432
    credentials_secret: SecretReference
    ssl_mode: Literal["require", "verify-ca", "verify-full"] | None = None
    ca_secret: SecretReference | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.ca_secret is not None) != (self.ssl_mode in ("verify-ca", "verify-full")):
            raise ValueError("ca_secret and ssl_mode verify-ca or verify-full belong together: set both or none")
        return self


class ResultStore(Section):
    """PostgreSQL, for pipelines that publish into tables.

    Attributes:
        clients: namespaces whose pods may connect to ours, besides the pipelines' own.
    """

    enabled: bool = True
    external: ExternalResultStore | None = None
    database: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] = "results"
    storage_size: Quantity = "4Gi"
    resources: Resources | None = None
    clients: tuple[Label, ...] = ()


class SparkOperator(Section):
    """The operator; `installed` means one that watches our pipelines' namespace is there, with its CRDs.

    Attributes:
        other_namespaces: of pipelines that are not this stack's, and that our operator looks after too; they exist.
    """

    installed: bool = False
    other_namespaces: tuple[Label, ...] = ()
    replicas: Annotated[int, Field(ge=1, le=3)] = 1
    resources: Resources | None = None


class HistoryServer(Section):
    """Spark's UI of drivers that have ended; without it pipelines keep no event log."""

    enabled: bool = True
    resources: Resources | None = None


class Exposed(Section):
    """How clients outside the cluster reach one service; None takes what is usual for `by`.

    Attributes:
        by: `none`: they do not. An Ingress speaks HTTP, and Kafka does not.
        host: name or address that clients use; of brokers with a load balancer each, `{node}` is the node's number.
        port: that clients use; Kafka's is that of node 0, others follow.
        node_port: likewise, in the cluster.
        annotations: of the Service or Ingress, for the controller that serves it.
        ingress_class: the cluster's default unless named.
        tls_secret: Secret of the platform's namespace with the certificate of an Ingress.
    """

    by: Literal["none", "NodePort", "LoadBalancer", "Ingress"] = "none"
    host: Annotated[str, Field(min_length=1)] | None = None
    port: Port | None = None
    node_port: NodePort | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    ingress_class: Label | None = None
    tls_secret: Label | None = None


class ExternalAccess(Section):
    """What is reached from outside the cluster; `console` is that of the object store.

    None of it asks for more than its own login, and Kafka and history server ask for none.
    """

    kafka: Exposed = Exposed()
    object_store: Exposed = Exposed()
    console: Exposed = Exposed()
    history_server: Exposed = Exposed()


class NetworkPolicies(Section):
    """Who connects to whom, in force where the cluster's network knows policies.

    Attributes:
        enabled: without them everybody may connect to everybody.
        api_server: addresses of Kubernetes' API server, as pods reach it and as it reaches pods. None: anywhere.
        api_server_ports: of its Service, and its own.
        dns: of name servers that are no pods of the cluster's own. The default is that of a cache on every node.
    """

    enabled: bool = True
    api_server: tuple[Cidr, ...] = ()
    api_server_ports: Annotated[tuple[Port, ...], Field(min_length=1)] = (443, 6443)
    dns: tuple[Cidr, ...] = ("169.254.20.10/32",)


class Security(Section):
    """What is encrypted and asks for a login inside the cluster; off until it is named.

    Attributes:
        spark: driver and executors of a pipeline know each other by a secret and encrypt what they say; their page asks
            for a password.
        kafka: TLS on every listener of our broker, a login for each pipeline, and rights on its own names alone.
        object_store: keys for each pipeline, of its own folders in our object store alone.
        rotation: raise it to have every derived secret, and every certificate, anew. Keys of the object store open it
            until it is raised again.
        authority: raise it by one to have them signed by another authority. The one before and the next are believed
            with it, so that nodes of both numbers hear each other.
    """

    spark: bool = False
    kafka: bool = False
    object_store: bool = False
    authority: Annotated[int, Field(ge=0)] = 0
    rotation: Annotated[int, Field(ge=0)] = 0


class Toleration(Section):
    """A taint that all our pods accept; the fields are those of Kubernetes."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class Scheduling(Section):
    """Where all our pods may run."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


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
        topic: read; `<pipeline_prefix>events` unless set.
        create_topic: make the topic, with `partitions` and `replication` copies.
        replication: copies of every topic; 0 means as many as the broker has nodes, 3 with an external one.
        bucket: of chain, deltas, checkpoints and file sinks.
        shards: fixed for the life of the pipeline.
        window_ms: None takes what the job declares; fixed for the life of the pipeline.
        lateness_ms: likewise.
        driver_grace_s: a driver that is replaced or suspended finishes its epoch in this time; None takes the chart's.
        result_store: its tables are in the platform's result store; a pipeline with tables needs it.
        service: a small HTTP service of the job beside it, such as one that answers from its tables.
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
    """

    identity: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9_]{0,38}[a-z0-9])?$")]
    job: Job
    module: Module | None = None
    job_settings: dict[str, JsonValue] = Field(default_factory=dict)
    wheel: Label | None = None
    image: PinnedImage | None = None
    topic: Topic
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
    # The next driver has to run within the ten minutes that Pulumi waits.
    driver_grace_s: Annotated[int, Field(ge=1, le=300)] | None = None
    result_store: bool = False
    driver: Driver = Driver()
    executors: Executors = Executors()
    service: Service | None = None
    kafka_credentials_secret: SecretReference | None = None
    egress: tuple[Outside, ...] = ()
    suspend: bool = False
    announce: bool = False
    spark_conf: dict[str, str] = Field(default_factory=dict)
    extra_files: dict[str, str] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    secret_environment: dict[str, SealedVariable] = Field(default_factory=dict)


class Images(Section):
    """Whole references of our images.

    Attributes:
        jobs: images with a wheel of yours more, by its name; as a key of `images` it is `job-<name>`.
    """

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"), populate_by_name=True)

    spark: Annotated[str, Field(pattern=r"^\S+$")]
    spark_operator: Annotated[str, Field(pattern=r"^\S+$")]
    kafka: Annotated[str, Field(pattern=r"^\S+$")]
    minio: Annotated[str, Field(pattern=r"^\S+$")]
    postgres: Annotated[str, Field(pattern=r"^\S+$")]
    jobs: dict[Label, PinnedImage] = Field(default_factory=dict)

    def references(self) -> dict[str, str]:
        """Return them flat, as stack outputs and bundles tell them: by the names that the setting `images` knows."""
        own = self.model_dump(by_alias=True, exclude_none=True, exclude={"jobs"})
        return {**own, **{f"{JOB_IMAGE}{name}": reference for name, reference in self.jobs.items()}}


class Settings(Section):
    """Everything a deployment is made of.

    Attributes:
        namespace: the platform's namespace, and the beginning of the operator's and the pipelines'.
        image_pull_secrets: names of Secrets that you put into each namespace (make the namespaces before: they are
            used, and left by a destroy).
        architecture: of the images; pods go to such nodes only.
        context: kubeconfig context; None takes the current one.
        confirm_context: the name of a context that is not ours, to say that it is meant.
        adopt_credentials: use the passwords that an earlier destroy left with the volumes.
        pipeline_prefix: begins every identity and default topic, so that platforms can share broker and store.
    """

    profile: Literal["laptop", "ci", "chaos", "brokers", "production"]
    namespace: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$")] = PROJECT
    images: Images
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[Label, ...] = ()
    architecture: Literal["amd64", "arm64"] | None = None
    context: str | None = None
    confirm_context: str | None = None
    adopt_credentials: bool = False
    storage: Storage = Storage()
    kafka: Kafka = Kafka()
    object_store: ObjectStore = ObjectStore()
    result_store: ResultStore = ResultStore()
    spark_operator: SparkOperator = SparkOperator()
    history_server: HistoryServer = HistoryServer()
    external_access: ExternalAccess = ExternalAccess()
    network_policies: NetworkPolicies = NetworkPolicies()
    security: Security = Security()
    scheduling: Scheduling = Scheduling()
    pipeline_prefix: Annotated[str, Field(pattern=r"^([a-z][a-z0-9_]*)?$")] = ""
    pipelines: dict[str, Pipeline] = Field(default_factory=dict)

    @property
    def operator_namespace(self) -> str:
        """Where the Spark operator runs."""
        return f"{self.namespace}-operator"

    @property
    def pipelines_namespace(self) -> str:
        """Where drivers and executors run."""
        return f"{self.namespace}-pipelines"
