"""What is between buffer and broker: hands records over, notes what is acknowledged, and sends again what is refused.

The Kafka client itself sends a request again whose answer is lost or late, as often as it takes: one request at a time,
so that the order of a partition's first copies is that of the puts. It is not asked to be idempotent: a producer's
sequence numbers end with its process, the ids do not, and only one of the two is needed.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from effectively_once.errors import SettingsError
from effectively_once.gateway.buffer import Buffer
from effectively_once.gateway.limits import Limits
from effectively_once.gateway.record import Record
from effectively_once.gateway.stating import Stating

OUTSTANDING_MAX = 20_000
"""Records at the client above which no more are read from the buffer."""
QUEUE_KBYTES = 65_536
MESSAGE_BYTES_MAX = 100_000_000
"""The client's own limit, out of the way: what a topic takes is the topic's setting, and its refusal names it."""
RETRY_S, RETRY_MAX_S = 1.0, 30.0
SAVE_S = 0.2
"""How far the recorded end of what is acknowledged may lag: that much is sent again after a crash."""
POLL_S = 0.01
_OWN = {
    "acks",
    "request.required.acks",
    "bootstrap.servers",
    "metadata.broker.list",
    "enable.idempotence",
    "transactional.id",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "retries",
    "message.send.max.retries",
    "request.timeout.ms",
    "socket.timeout.ms",
    "statistics.interval.ms",
    "stats_cb",
    "error_cb",
    "on_delivery",
    "dr_cb",
    "batch.num.messages",
}
Config = Mapping[str, str | int | float | bool]


class Sender:
    """Sends what is in a buffer to a topic. Used by one thread.

    `announce` is told `acknowledged` whenever the broker acknowledged something, before that is recorded. `stating`
    says how far the buffer is, where somebody waits for it.
    """

    def __init__(
        self,
        buffer: Buffer,
        topic: str,
        bootstrap: str,
        limits: Limits,
        *,
        config: Config,
        announce: Callable[[str], None],
        stating: Stating | None = None,
    ) -> None:
        self._buffer = buffer
        self._stating = stating
        self._topic = topic
        self._announce = announce
        self._config = client_config(bootstrap, limits, config)
        self._client = self._connect({})
        # Broker and topic bound a batch, not a record: what is refused goes on its own the next time.
        self._single: Producer | None = None
        self._recovered_end = buffer.end
        self._read: deque[tuple[int, Record]] = deque()
        self._acknowledged: list[int] = []
        self._refused: deque[tuple[int, Record]] = deque()
        self._retry_at = 0.0
        self._retry_s = RETRY_S
        self._saved_at = 0.0
        self._handed = 0
        self._again = 0
        self._transmitted: dict[str, int] = {}
        self.acknowledged = 0
        self.obstacle: str | None = None

    @property
    def resent(self) -> int:
        """Copies beyond the first, as far as the client has told by now (once a second)."""
        return self._again + max(0, sum(self._transmitted.values()) - self._handed)

    @property
    def sent(self) -> int:
        """Copies handed to the client or sent by it again."""
        return self._handed + max(0, sum(self._transmitted.values()) - self._handed)

    def step(self) -> bool:
        """Send and take in answers for some milliseconds. Tell whether something is under way."""
        if self._refused and time.monotonic() >= self._retry_at:
            self._retry()
        if not self._read and len(self._client) < OUTSTANDING_MAX:
            self._read.extend(self._buffer.read())
        while self._read and self._hand_over(self._client, *self._read[0]):
            self._again += self._read.popleft()[0] < self._recovered_end
        waiting = self._count_waiting()
        self._client.poll(POLL_S if waiting else 0)
        if self._single is not None:
            self._single.poll(0)
        self._take_in()
        if self._stating is not None:
            self._stating.step(self._client, caught_up=self._buffer.acknowledged >= self._recovered_end)
        return waiting > 0

    def close(self) -> None:
        """Give up what is not acknowledged: it stays in the buffer."""
        for client in filter(None, (self._client, self._single)):
            client.purge()
            client.poll(0)
            client.close()
        self._take_in()

    def _count_waiting(self) -> int:
        return len(self._client) + (len(self._single) if self._single is not None else 0)

    def _take_in(self) -> None:
        if self._acknowledged:
            self._announce("acknowledged")
            self.acknowledged += len(self._acknowledged)
            self._buffer.acknowledge(self._acknowledged)
            self._acknowledged = []
            if not self._refused:
                self.obstacle, self._retry_s = None, RETRY_S
        if time.monotonic() >= self._saved_at + SAVE_S:
            self._saved_at = time.monotonic()
            try:
                self._buffer.save()
            except OSError as error:
                # A full disk gets room from the segments that go; until then more would be sent again.
                self.obstacle = f"what is acknowledged cannot be recorded: {error}"

    def _hand_over(self, client: Producer, ordinal: int, record: Record) -> bool:
        """Give a record to the client; False while it has no room."""
        delivered = partial(self._take_delivery, ordinal, record)
        try:
            client.produce(self._topic, record.value, record.key, headers=record.headers or None, on_delivery=delivered)
        except BufferError:
            return False
        except KafkaException as error:
            self._take_delivery(ordinal, record, error.args[0])
        else:
            self._handed += 1
        return True

    def _take_delivery(
        self, ordinal: int, record: Record, error: KafkaError | None, sent: Message | None = None
    ) -> None:
        if error is None:
            self._acknowledged.append(ordinal)
            if self._stating is not None and sent is not None:
                self._stating.note_acknowledged(record, sent)
        elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self.obstacle = f"a record is refused: {error.str()}"
            if not self._refused:
                self._retry_at = time.monotonic() + self._retry_s
                self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
            self._refused.append((ordinal, record))

    def _retry(self) -> None:
        if self._single is None:
            self._single = self._connect({"batch.num.messages": 1})
        refused, self._refused = deque(sorted(self._refused, key=lambda one: one[0])), deque()
        while refused and self._hand_over(self._single, *refused[0]):
            refused.popleft()
            self._again += 1
        self._refused.extend(refused)

    def _connect(self, more: Config) -> Producer:
        try:
            return Producer({**self._config, **more, "stats_cb": self._take_statistics, "error_cb": self._take_error})
        except KafkaException as error:
            raise SettingsError(
                f"the Kafka client refuses its configuration: {error.args[0].str()}",
                "config of the gateway",
                "Correct it.",
            ) from error

    def _take_statistics(self, statistics: str) -> None:
        told = json.loads(statistics)
        of_topic = told["topics"].get(self._topic, {"partitions": {}})
        self._transmitted[told["name"]] = sum(one["txmsgs"] for one in of_topic["partitions"].values())

    def _take_error(self, error: KafkaError) -> None:
        self.obstacle = error.str()


def client_config(bootstrap: str, limits: Limits, config: Config) -> dict[str, object]:
    """Return the Kafka client's configuration. Raises SettingsError for what the gateway's promise rests on."""
    taken = sorted(_OWN & config.keys())
    if taken:
        raise SettingsError(
            f"{', '.join(taken)} cannot be configured", "config of the gateway", "Leave it out; times are in Limits."
        )
    timeout_ms = max(10, int(limits.answer_timeout_s * 1000))
    return {
        "linger.ms": 5,
        "compression.type": "lz4",
        "partitioner": "murmur2_random",
        "log_level": 0,
        "reconnect.backoff.max.ms": 2000,
        "queue.buffering.max.kbytes": max(QUEUE_KBYTES, limits.record_bytes_max // 512),
        "message.max.bytes": MESSAGE_BYTES_MAX,
        **config,
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": False,
        "max.in.flight": 1,
        "message.timeout.ms": 0,
        "request.timeout.ms": timeout_ms,
        "socket.timeout.ms": timeout_ms,
        "statistics.interval.ms": 1000,
    }
