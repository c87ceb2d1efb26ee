"""Copies of what a pipeline's Kafka sinks show, cut to the head of the backup that they lie in; and the way back.

A broker cannot take the end of a topic away. Sinks that have gone on since a backup was taken are therefore not set
back, but made anew and filled: with these rows, in their order, and with the mark of the last recorded epoch behind
them, so that the restored chain and its sinks agree (R10).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import tenacity

from effectively_once.errors import ChainError, SettingsError, SinkError
from effectively_once.ledger import segments
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ListedStore, body_of, create_once, run
from effectively_once.ledger.record import Record
from effectively_once.ledger.rows import Rows
from effectively_once.operate.backup.backup_manifest import BackupError, BackupManifest, manifest_of
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.pipeline.job import Job
from effectively_once.sinks.kafka import ShardSink, describe
from effectively_once.sinks.kafka_rows import Placed, read_all, was_written
from effectively_once.sinks.kafka_shard import Row, ShardAddress, read_mark

FOLDER, TOPICS = "topics", "topics.json"
SEEN_S = 10.0
"""Within this time readers of committed data see what a broker has committed."""


class ShardCopy(Record):
    """Rows of one shard of one sink.

    Attributes:
        last: how many of them are those of the last epoch that had some.
        sha256: of the object that holds them.

    """

    rows: int
    last: int
    sha256: str


class TopicsManifest(Record):
    """What makes the copies of a backup complete.

    Attributes:
        of: digest of the backup's manifest.
        shards: by sink and shard, as `accepted/0`.

    """

    of: str
    shards: dict[str, ShardCopy]


class TopicCopies:
    """The Kafka sinks of one job, and their copies in one backup.

    Args:
        job: whose sinks they are.
        place: of the backup.
        say: is told how far it is.

    Raises:
        SettingsError: the sinks keep no marks, so nothing tells which rows a chain has.

    """

    def __init__(self, job: Job, place: BackupLocation, say: Callable[[str], object]) -> None:
        if job.settings.semantics != "exactly_once":
            raise SettingsError(
                f"sinks of semantics {job.settings.semantics} keep no marks to cut a copy of a topic by",
                "option --topics",
                "Leave --topics out, and copy the topics by the broker's own means.",
            )
        self._settings, self._place, self._say = job.settings, place.below(FOLDER), say
        self._sinks, self._whole = tuple(job.pipeline.kafka_sinks), place

    def take(self, manifest: BackupManifest, source: ListedStore) -> None:
        """Copy the rows of all epochs that the head of a backup has recorded; drivers may run.

        Raises:
            BackupError: a topic does not hold the rows of the last epoch, there are copies already, or some rows are of
                shards that are no more.
            ChainError: a segment is missing or damaged.
            UnreachableError: no broker answers.

        """
        head = decode(manifest.head.encode(), "head of the backup")
        records = run(segments.history(Layout(manifest.pipeline), head), source)
        most = max((record.shards for record in records), default=0)
        if most > self._settings.shards:
            raise BackupError(
                f"the topics have rows of {most} shards, and the pipeline has {self._settings.shards} now",
                f"{self._place}, {TOPICS}",
                "Copy the topics by the broker's own means, and back up without --topics.",
            )
        shards = {}
        for name, address in self._shards():
            last = find_last(records, address)
            rows = self._read(address, last) if last is not None else []
            body = encode(rows)
            self._create(name, body)
            shards[name] = ShardCopy(
                rows=len(rows), last=last.rows if last else 0, sha256=hashlib.sha256(body).hexdigest()
            )
        made = TopicsManifest(of=manifest.digest, shards=shards)
        self._create(TOPICS, made.model_dump_json().encode())
        self._say(f"topics: {sum(one.rows for one in shards.values()):,} rows of {len(self._sinks)} sinks")

    def check(self) -> None:
        """Refuse what cannot be put back, before anything is.

        Raises:
            BackupError: the backup has no copies, or one of other shards.
            SinkError: a topic has rows that are not those of the backup.
            UnreachableError: no broker answers.

        """
        manifest, copies = manifest_of(self._whole), self._copies()
        head = decode(manifest.head.encode(), "head of the backup")
        if copies.of != manifest.digest or copies.shards.keys() != {name for name, _ in self._shards()}:
            raise self._no_copies_error("the copies of the topics are of another backup, or of other sinks or shards")
        for _, address in self._shards():
            self._is_done(address, head)

    def put_back(self, head: Head) -> None:
        """Fill the topics, which are empty, and give each shard its mark; what is filled stays as it is.

        Raises:
            BackupError: a copy is missing or damaged.
            SinkError: a topic has rows that are not those of the backup.
            UnreachableError: no broker answers.

        """
        copies = self._copies()
        for name, address in self._shards():
            if head.last_recorded < 0 or self._is_done(address, head):
                continue
            copied, body = copies.shards[name], run(body_of(name), self._place)
            if body is None or hashlib.sha256(body).hexdigest() != copied.sha256:
                raise self._no_copies_error(f"the copy of {name} is missing or damaged")
            ShardSink(address).fill(decode_rows(body), copied.last, head.last_recorded, head.generation)
            self._say(f"{address}: {copied.rows:,} rows are back, and the mark of epoch {head.last_recorded}")

    def _shards(self) -> Iterator[tuple[str, ShardAddress]]:
        settings = self._settings
        for sink in self._sinks:
            for shard in range(settings.shards):
                where = ShardAddress(
                    settings.kafka_bootstrap, settings.pipeline, sink, shard, settings.transaction_timeout_s
                )
                yield f"{sink}/{shard}", where

    def _read(self, address: ShardAddress, last: Rows) -> list[Row]:
        """Read the rows up to those of the last epoch; a broker answers a commit before readers see it."""
        rows: list[Row] = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(BackupError),
            wait=tenacity.wait_fixed(0.3),
            stop=tenacity.stop_after_delay(SEEN_S),
            reraise=True,
        )(lambda: cut(read_all(address), last, address))
        return rows

    def _is_done(self, address: ShardAddress, head: Head) -> bool:
        """Whether a shard agrees with the chain as it is (R10). Raises SinkError: it shows something else."""
        mark = read_mark(address)
        if mark is None and not was_written(address):
            return False
        if mark is not None and mark.epoch in (head.last_recorded, head.declared.epoch if head.declared else -1):
            return True
        told = "none" if mark is None else str(mark.epoch)
        raise SinkError(
            f"the topics of a sink are not empty, and their mark is {told}, not the backup's {head.last_recorded}",
            str(address),
            f"Keep what you need of them. Delete {address.topic} and {address.progress}, run "
            "`effectively-once create`, then restore again.",
        )

    def _copies(self) -> TopicsManifest:
        body = run(body_of(TOPICS), self._place)
        if body is None:
            raise self._no_copies_error("the backup has no copies of topics: it was taken without --topics")
        try:
            return TopicsManifest.model_validate_json(body)
        except ValueError as wrong:
            raise self._no_copies_error("what tells of the copies of topics cannot be read") from wrong

    def _create(self, name: str, body: bytes) -> None:
        if run(create_once(name, body), self._place) != body:
            raise BackupError("another backup is there", f"{self._place}, {name}", "Name an empty place.")

    def _no_copies_error(self, what: str) -> BackupError:
        todo = "Use another backup; or leave --topics out, and put the topics back to its moment by other means."
        return BackupError(what, f"{self._place}, {TOPICS}", todo)


def find_last(records: Sequence[EpochRecord], address: ShardAddress) -> Rows | None:
    """Return what the last epoch published that had rows for a shard; None: none had."""
    found = (record.sinks.get(address.sink, {}).get(str(address.shard)) for record in reversed(records))
    return next((rows for rows in found if rows is not None and rows.rows), None)


def cut(placed: Sequence[Placed], last: Rows, address: ShardAddress) -> list[Row]:
    """Return the rows up to the end of the transaction that has those of the last epoch.

    A control record ends each transaction, so its rows are those between two gaps of the offsets.

    Raises:
        BackupError: there is no such transaction, or more than one.

    """
    begins = [at for at, (offset, _) in enumerate(placed) if at == 0 or placed[at - 1][0] != offset - 1]
    spans = [(begin, end) for begin, end in pairwise([*begins, len(placed)]) if end - begin == last.rows]
    ends = [end for begin, end in spans if _digest(placed[begin:end], last) == last.digest]
    if len(ends) != 1:
        raise BackupError(
            f"{len(ends)} transactions in the topic have the {last.rows:,} rows of the last epoch of the backup",
            f"topic {address.topic} partition {address.shard}",
            "Retention may have deleted them: copy the topic by the broker's own means, and back up without --topics.",
        )
    return [row for _, row in placed[: ends[0]]]


def _digest(placed: Sequence[Placed], like: Rows) -> str:
    return describe([row for _, row in placed], like.digest).digest


def encode(rows: Sequence[Row]) -> bytes:
    """Return rows as lines of JSON: key, or null, and value, in base64."""
    return b"".join(json.dumps([_text(key), _text(value)]).encode() + b"\n" for key, value in rows)


def decode_rows(body: bytes) -> list[Row]:
    """Read what `encode` wrote. Raises ChainError."""
    try:
        told = [json.loads(line) for line in body.splitlines()]
        return [(None if key is None else base64.b64decode(key), base64.b64decode(value)) for key, value in told]
    except (ValueError, TypeError) as wrong:
        raise ChainError("a copy of a topic cannot be read", TOPICS, "Use another backup.") from wrong


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
