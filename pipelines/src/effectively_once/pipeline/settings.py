"""Typed settings of a pipeline, read once from a JSON file. Credentials come from the environment instead."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from effectively_once.errors import SettingsError
from effectively_once.ledger.declaration import SHARD_BYTES
from effectively_once.state.lateness import LONGEST_MS, Windows
from effectively_once.store.object_store import BucketAddress


def _bootstrap(value: str) -> str:
    for broker in value.split(","):
        if not 1 <= int(broker.rpartition(":")[2]) <= 65535:
            raise ValueError(f"a port is 1 to 65535, got {broker!r}")
    return value


def _in_order(value: Any) -> Any:
    """Write several topics as one text, in one order: the chain keeps it."""
    names = value.split(",") if isinstance(value, str) else value
    is_texts = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return ",".join(sorted(names)) if is_texts else value


def _topic(value: str) -> str:
    """Kafka's rule. 200 of its 249 characters: the names of other topics begin with this one."""
    names = value.split(",")
    if {".", ".."} & {*names}:
        raise ValueError(f"Kafka has no topic of this name, got {value!r}")
    if len({*names}) < len(names):
        raise ValueError(f"a topic is named twice, got {value!r}")
    return value


def _bucket(value: str) -> str:
    """S3's rule: labels as a host's, and no address, since stores take buckets for names of hosts."""
    if any(not label or label[0] == "-" or label[-1] == "-" for label in value.split(".")):
        raise ValueError(f"each part between dots begins and ends with a letter or digit, got {value!r}")
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        return value
    raise ValueError(f"a bucket is not named like an IP address, got {value!r}")


def _time(value: str) -> str:
    """One that has been: one that is not yet would leave out other records at each start.

    It has its offset from UTC: without one the machine of a driver would say which time it is.
    """
    # Raises ValueError itself: there is no 31st of February.
    if datetime.fromisoformat(value) > datetime.now(UTC):
        raise ValueError(f"a pipeline begins at a time that has been, got {value!r}")
    return value


_HOST = r"[A-Za-z0-9._-]+:[0-9]{1,5}"
Bootstrap = Annotated[
    str, Field(pattern=f"^{_HOST}(,{_HOST})*$", examples=["kafka-0:9092,kafka-1:9092"]), AfterValidator(_bootstrap)
]
_TOPIC = r"[A-Za-z0-9._-]{1,200}"
Topic = Annotated[
    str,
    Field(pattern=f"^{_TOPIC}(,{_TOPIC})*$", examples=["events", "orders,returns"]),
    BeforeValidator(_in_order),
    AfterValidator(_topic),
]
Time = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)$",
        examples=["2026-03-01T00:00:00Z"],
    ),
    AfterValidator(_time),
]
Bucket = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", examples=["effectively-once"]),
    AfterValidator(_bucket),
]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
Source = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
# JSON has lists and no tuples; strict otherwise.
Sources = Annotated[tuple[Source, ...], Field(strict=False)]
Constraint = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}: \S.*$", examples=["orders: unique index clicks.once"])
]
Constraints = Annotated[tuple[Constraint, ...], Field(strict=False)]


LENGTHS = ("length_ms", "slide_ms")
"""What windows may have of their own, in the place of `window_ms`."""
UNSET = {"explode": False, "begins_at": None}
"""What is bound where it is set alone, so that the digest of others is that of before; and what it is elsewhere."""


class PipelineSettings(BaseModel):
    """Everything one pipeline needs to know.

    Attributes:
        pipeline: its identity: drivers of one name fence each other, progress marks and objects carry it.
        topic: the Kafka topic it reads, or several, with commas between them; the same ones for good.
        begins_at: where a pipeline without a chain begins: in each partition with the first record of that Kafka
            timestamp or later. None: with all that the topic holds.
        job: the module that declares it as `pipeline`, or `module:name`.
        kafka_bootstrap: host:port[,host:port].
        s3_endpoint: http://host:port or https://host:port.
        s3_bucket: bucket of chain, deltas, checkpoints and file sinks.
        database: postgresql://host:port/database, for pipelines with tables; user and password are in the environment.
        shards: P of R4, of the next new epoch; it may change, but not with state of Spark's own.
        window_ms: length of windows that declare none, and the grain in which records are late and ids forgotten.
        lateness_ms: how long after its end a window still takes records.
        idle_ms: time goes by the partition that is furthest behind, and one that was silent for so long is not waited
            for; None: by the largest event time seen anywhere, so that what lags has its records refused.
        sources: gateways that say how far they are: windows wait for each. Needs idle_ms.
        hold_max_ms: how long windows wait for a source that does not move.
        held_rows_max: ids, and rows of open windows, that one shard keeps at most only because somebody is waited for.
            Where it keeps more, time goes on: who is behind is not waited for beyond that, and named. Needs idle_ms.
        epoch_rows_max: rows one epoch reads at most; bounds transactions and memory.
        shard_bytes_max: bytes of text that one shard takes of an epoch at most. What it has beyond that the next epochs
            take, before anything new is read; one row it takes however large that is. Not of a stateful query.
        trusted_constraints: what somebody added to tables of which no trial can tell, as a refused start names it: an
            operator answers for it that no row is refused.
        semantics: at_least_once leaves transactions and marks of the Kafka sinks out: a repeat is visible again.
        transaction_timeout_s: how long the broker lets a transaction stay open that nobody ends.
        dense_offsets: every offset of the topic is a record, as nobody sends to it in transactions: then an epoch with
            fewer rows than offsets is not published.
        outage_ms: how long drivers may be away without records of the input expiring unread; a start warns of a topic
            that keeps them shorter.
        start_patience_s: how long broker and object store may stay silent before a start is given up.
        standby: of several drivers of the pipeline one is at work, and each other one waits with its session up until
            that one has ended, or shows no sign of life for `lease_s`. Without it a driver that starts takes over.
        lease_s: the driver at work renews its sign of life five times within it, and a standby looks as often.

    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    pipeline: Name
    topic: Topic
    kafka_bootstrap: Bootstrap
    s3_endpoint: Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
    s3_bucket: Bucket
    job: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$",
            examples=["effectively_once_jobs.user_counts"],
        ),
    ]
    begins_at: Time | None = None
    database: Annotated[str, Field(pattern=r"^postgresql://[^\s/:@?]+:\d+/[^\s/:@?]+$")] | None = None
    shards: Annotated[int, Field(ge=1, le=256)] = 2
    window_ms: Annotated[int, Field(ge=1, le=LONGEST_MS)] = 60_000
    lateness_ms: Annotated[int, Field(ge=0, le=LONGEST_MS)] = 120_000
    idle_ms: Annotated[int, Field(ge=1, le=LONGEST_MS)] | None = None
    sources: Sources = ()
    hold_max_ms: Annotated[int, Field(ge=1, le=LONGEST_MS)] = 600_000
    held_rows_max: Annotated[int, Field(ge=1, le=1 << 40)] = 1_000_000
    epoch_rows_max: Annotated[int, Field(ge=1, le=5_000_000)] = 20_000
    shard_bytes_max: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = SHARD_BYTES
    trusted_constraints: Constraints = ()
    semantics: Literal["exactly_once", "at_least_once"] = "exactly_once"
    transaction_timeout_s: Annotated[int, Field(ge=5, le=900)] = 60
    dense_offsets: bool = False
    outage_ms: Annotated[int, Field(ge=0)] = 86_400_000
    start_patience_s: Annotated[float, Field(ge=1, le=600)] = 15.0
    standby: bool = False
    lease_s: Annotated[float, Field(ge=1, le=60)] = 5.0

    @model_validator(mode="after")
    def _possible(self) -> PipelineSettings:
        for topic in self.topics:
            if topic.startswith(f"{self.pipeline}."):
                raise ValueError(
                    f"topic {topic!r} begins with the pipeline's name: the pipeline would read what it writes"
                )
        if self.sources and len(self.topics) > 1:
            raise ValueError("sources say how far they are in one topic: leave them out, or read one topic")
        if self.sources and self.idle_ms is None:
            raise ValueError("sources need idle_ms: the time of a source is beside that of the partitions")
        if len({*self.sources}) < len(self.sources):
            raise ValueError(f"sources name one twice: {', '.join(self.sources)}")
        return self

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics it reads."""
        return (*self.topic.split(","),)

    @property
    def bucket(self) -> BucketAddress:
        """Address of the bucket."""
        return BucketAddress(self.s3_endpoint, self.s3_bucket)

    @property
    def windows(self) -> Windows:
        """The windows of the pipeline, by which records are late and ids forgotten."""
        return Windows(self.window_ms, self.lateness_ms)

    @property
    def bound(self) -> dict[str, Any]:
        """The settings that state depends on; beside them is what the declaration says of it."""
        kept = {name: getattr(self, name) for name in ("topic", "shards", "window_ms", "lateness_ms")}
        return kept if self.begins_at is None else {**kept, "begins_at": self.begins_at}

    @property
    def begins_ms(self) -> int | None:
        """`begins_at` in ms since 1970."""
        return None if self.begins_at is None else int(datetime.fromisoformat(self.begins_at).timestamp() * 1000)


def digest(bound: Mapping[str, Any]) -> str:
    """Digest of what state depends on, pinned in every declaration."""
    return hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()[:32]


def load(path: Path, defaults: Callable[[str], Mapping[str, Any]] = lambda _: {}) -> PipelineSettings:
    """Read a settings file; `defaults` are those of the job that it names.

    Raises:
        SettingsError: naming field, value and what is allowed.

    """
    try:
        body = path.read_bytes()
        settings = PipelineSettings.model_validate_json(body)
        return PipelineSettings.model_validate({**settings.model_dump(), **defaults(settings.job), **json.loads(body)})
    except OSError as error:
        raise SettingsError(f"settings cannot be read: {error.strerror}", str(path), "Name a readable file.") from error
    except ValidationError as wrong:
        first = wrong.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        value = f", got {first['input']!r}" if first["type"] not in ("missing", "json_invalid", "value_error") else ""
        raise SettingsError(
            f"{field}: {first['msg']}{value}",
            str(path),
            f"{_example(field)}Fields are {', '.join(PipelineSettings.model_fields)}.",
        ) from wrong


def _example(field: str) -> str:
    """Return a sentence that shows what a field looks like, where its name alone does not tell."""
    shown = PipelineSettings.model_fields[field].examples if field in PipelineSettings.model_fields else None
    return f"Write it like this: {json.dumps(field)}: {json.dumps(shown[0])}. " if shown else ""


def refuse_changed(kept: Mapping[str, Any], bound: Mapping[str, Any], where: str) -> None:
    """Refuse settings that contradict the state that is there (R4: the shard of a key may not move).

    Raises:
        SettingsError: naming the first field that differs, both values, and the way out.

    """
    before, now = UNSET | {**kept}, UNSET | {**bound}
    for name in now:
        # What an older version did not keep cannot be compared.
        if name in before and before[name] != now[name]:
            what, was, becomes = _narrow(name, before[name], now[name])
            raise SettingsError(
                f"{what} was {was!r} when this pipeline began and is {becomes!r} now",
                where,
                f"Set {what} back to {was!r}, or give the pipeline another name to begin anew.",
            )


def _narrow(name: str, kept: Any, bound: Any) -> tuple[str, Any, Any]:
    """Say what of a setting differs: of windows the length, where that is another one."""
    if name == "windows":
        for windows in kept.keys() & bound.keys():
            for field in LENGTHS:
                before, now = kept[windows].get(field), bound[windows].get(field)
                if before != now:
                    return f"{field} of windows {windows!r}", before, now
    return name, kept, bound
