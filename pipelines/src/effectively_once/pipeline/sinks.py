"""Where rows go: what a job author declares of a sink. Each has a name, which is unique in its pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from effectively_once.declared import TEXT, WHOLE, none_or, one_of, require, several

RECORD_BYTES = 1_048_588
"""What a topic takes where nobody says otherwise."""
GROWTH = 12
"""A control character takes six bytes as JSON, and a message may show a text twice."""
MESSAGE_BYTES = GROWTH * RECORD_BYTES + (64 << 10)
"""What messages may have where nobody says otherwise: whatever a record becomes that Kafka takes by default."""


@dataclass(frozen=True, slots=True)
class ToKafka:
    """The topic `<pipeline>.<name>`, in transactions; read it with `isolation.level=read_committed`.

    Attributes:
        name: last part of the topic's name.
        key: the column (text or binary) that is the messages' key; None for no key.
        columns: those in a message's JSON object, in this order; empty for all. `epoch` is added, and for rows of the
            input `source`: topic, partition and offset.
        value: instead of JSON, the column (text or binary) whose content is the message.
        message_bytes_max: how large a message may be, with its key and Kafka's own words. The topic has to take as
            much. A record whose message would be larger is a dead letter (`large_<name>`).

    """

    name: str
    key: str | None = None
    columns: tuple[str, ...] = ()
    value: str | None = None
    message_bytes_max: int = MESSAGE_BYTES

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        require(self, name=TEXT, key=none_or(TEXT), columns=several(TEXT), value=none_or(TEXT), message_bytes_max=WHOLE)


@dataclass(frozen=True, slots=True)
class ToTable:
    """The table `<name>` in the schema `<pipeline>` of the settings' PostgreSQL database.

    Attributes:
        name: of the table.
        key: empty to append. Else rows replace those of equal key: an epoch may hold a key once, and all rows of a key
            have to be in one shard, so it begins with the column that rows are sharded by (`id`, or a window's `by`).
        columns: empty for all.

    """

    name: str
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        require(self, name=TEXT, key=several(TEXT), columns=several(TEXT))


@dataclass(frozen=True, slots=True)
class ToFiles:
    """Parquet files on the object store, named by a manifest an epoch; read them with `effectively_once.published`.

    Attributes:
        name: of the folder below the pipeline's.
        columns: empty for all.

    """

    name: str
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        require(self, name=TEXT, columns=several(TEXT))


@dataclass(frozen=True, slots=True)
class ToIceberg:
    """The Iceberg table `<pipeline>.<name>`, a snapshot an epoch; its catalog is in the settings' PostgreSQL database.

    Rows are appended. The files are on the object store, in the folder of the name below the pipeline's.

    Attributes:
        name: of the table.
        columns: empty for all. Others are added at the end, to the table first.

    """

    name: str
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        require(self, name=TEXT, columns=several(TEXT))


Destination = ToKafka | ToTable | ToFiles | ToIceberg
DESTINATION = one_of('ToKafka("name")', ToKafka, ToTable, ToFiles, ToIceberg)
