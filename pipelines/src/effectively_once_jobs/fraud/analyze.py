"""The role of an analyzer: transactions in, scores out, until its task is ended."""

from __future__ import annotations

import os
from collections.abc import Callable

import orjson
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from effectively_once.progress import announce
from effectively_once_jobs.fraud import kafka
from effectively_once_jobs.fraud.analyzers import ANALYZERS, Analyzer
from effectively_once_jobs.fraud.settings import FraudSettings
from effectively_once_jobs.fraud.transaction import Refusal, parse

POLL_S = 0.2


def run(settings: FraudSettings, name: str, going: Callable[[], bool]) -> None:
    """Analyze while `going()`.

    It begins two windows back in the topic, so that its history is whole for whatever arrives from now on (see
    Analyzer). What arrived before gets no score: by now it is decided, or late whatever anybody says of it.
    """
    window_ms = settings.windows_ms[name]
    began_ms = kafka.now_ms()
    source = kafka.consumer(settings.kafka_bootstrap, f"{settings.pipeline}.{name}")
    out = kafka.producer(settings.kafka_bootstrap)
    numbers = kafka.partitions(source, settings.topic)
    analyzers = {number: Analyzer(ANALYZERS[name], window_ms) for number in numbers}
    # Taken before it is asked what stands there: a record that comes in between is read, and not skipped.
    rebuilt = kafka.ends(source, settings.topic, numbers)
    back = [TopicPartition(settings.topic, number, began_ms - 2 * window_ms) for number in numbers]
    begins = {one.partition: one.offset for one in source.offsets_for_times(back, timeout=kafka.ANSWER_S)}
    begins = {number: rebuilt[number] if begin < 0 else begin for number, begin in begins.items()}
    source.assign([TopicPartition(settings.topic, number, begin) for number, begin in begins.items()])
    announce("role", role=name, state="started", pid=os.getpid())
    left = {number for number in numbers if begins[number] < rebuilt[number]}
    skipped, youngest_ms = 0, None
    if not left:
        announce("role", role=name, state="rebuilt", transactions=0, youngest_ms=None)
    while going():
        for message in kafka.messages(source, POLL_S):
            place, arrived_ms = (message.partition(), message.offset()), kafka.arrival(message)
            one = parse(message.value(), place, arrived_ms)
            points = None if isinstance(one, Refusal) else analyzers[place[0]].score(one)
            if arrived_ms < began_ms:
                skipped += 1
                age_ms = kafka.now_ms() - arrived_ms
                youngest_ms = age_ms if youngest_ms is None else min(age_ms, youngest_ms)
            elif points is not None:
                _send(out, settings.scores, place, name, points)
            if place[0] in left and place[1] >= rebuilt[place[0]] - 1:
                left.discard(place[0])
                if not left:
                    announce("role", role=name, state="rebuilt", transactions=skipped, youngest_ms=youngest_ms)
        out.poll(0)
    out.flush(1.0)


def _send(out: Producer, topic: str, place: tuple[int, int], name: str, points: int) -> None:
    """Send a score; one that cannot be sent is lost, which is what its deadline is for."""
    value = orjson.dumps({"offset": place[1], "analyzer": name, "points": points})
    try:
        out.produce(topic, value, partition=place[0])
    except (BufferError, KafkaException) as error:
        code = error.args[0].code() if isinstance(error, KafkaException) else KafkaError._QUEUE_FULL
        if code not in (*kafka.MOVING, KafkaError._QUEUE_FULL):
            raise
