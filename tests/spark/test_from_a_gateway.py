"""From a gateway to the counts (S2): what a failed sender cannot know becomes copies, and the job counts none twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from effectively_once import Trial
from effectively_once.gateway import Gateway, Limits, json_record
from effectively_once.testing import KafkaRecord
from effectively_once_jobs.user_counts import pipeline
from infra.embedded.process import wait_for
from tests.stack.faulty_link import Fault, FaultyLink
from tests.stack.gateways import Place, child, linked_broker, read_until_killed
from tests.stack.put_records import CLICKS, click, user_of

pytestmark = [pytest.mark.stack, pytest.mark.spark]

LIMITS = Limits(answer_timeout_s=1.0)
EPOCHS = 3
CLOSER = {"id": "closer", "user": "nobody", "event_time_ms": 10 * (pipeline.window_ms + pipeline.lateness_ms)}


def gateway_at(folder: Path, place: Place, producer: str) -> Gateway:
    return Gateway(
        folder, producer=producer, topic=place.topic, bootstrap=place.link.address, limits=LIMITS, build=json_record
    )


def put(gateway: Gateway, numbers: Iterable[int]) -> list[str]:
    pending = [gateway.put(click(n), key=f"key-{n % 7}", event_time_ms=n, wait=False) for n in numbers]
    return [str(one.result(30)) for one in pending]


def with_lost_answers(place: Place, folder: Path) -> list[str]:
    """Put clicks, some of which the broker has and acknowledges in vain; return their ids."""
    with gateway_at(folder, place, "gate") as gateway:
        ids = put(gateway, range(100))
        gateway.flush(30)
        link = place.link
        hits, connections = link.hits, link.accepted
        with link.fault(Fault.LOSE):
            ids += put(gateway, range(100, 300))
            # The gateway heard nothing, and has given that connection up: it cannot know.
            wait_for("a lost answer", 20, lambda: link.hits > hits and link.accepted > connections)
        gateway.flush(30)
    return ids


def with_a_killed_sender(place: Place, folder: Path) -> list[str]:
    """Have a sender killed that has lost answers, and its buffer sent by the next one; return the ids it told."""
    hits = place.link.hits
    with place.link.fault(Fault.LOSE, after=b"child-"):
        sender = child(place, folder, what=CLICKS)
        ids = read_until_killed(sender, lambda number: number > 100 and place.link.hits > hits)
    with gateway_at(folder, place, "child") as gateway:
        gateway.flush(30)
    return ids


def test_each_record_that_a_gateway_took_is_counted_once_whatever_was_lost_on_the_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Lost acknowledgements and a killed sender leave copies in the topic, no gap; the catalog drops every copy."""
    with FaultyLink() as link, linked_broker(tmp_path / "kafka", link) as broker:
        place = Place.made(broker, link)
        by_sender = [with_lost_answers(place, tmp_path / "gate"), with_a_killed_sender(place, tmp_path / "child")]
        values = [(one.value() or b"", one.key(), one.timestamp()[1]) for one in place.copies()]
    copies = [KafkaRecord(*one) for one in values]
    trial = Trial(pipeline, spark)
    accepted: Counter[str] = Counter()
    duplicates = 0
    for number in range(EPOCHS):
        # Every third: copies of a record come in one epoch and in several.
        outputs = trial.epoch(copies[number::EPOCHS])
        assert outputs["dead_letter"] == []
        accepted.update(row["id"] for row in outputs["accepted"])
        duplicates += trial.last.counts.duplicate
    assert trial.repeat() == outputs
    assert set(accepted.values()) == {1}
    for ids in by_sender:
        assert set(ids) <= set(accepted), "a record that was taken is missing"
    # The killed sender may have taken one more than it could tell of.
    assert len(accepted) - sum(map(len, by_sender)) in (0, 1)
    assert duplicates == len(copies) - len(accepted)
    senders = Counter(identity.partition("-")[0] for identity in accepted)
    sent = Counter(orjson.loads(value)["id"].partition("-")[0] for value, _, _ in values)
    assert {name for name in senders if sent[name] > senders[name]} == {"gate", "child"}, "a fault left no copy"
    trial.epoch([CLOSER])
    closed = trial.epoch([])
    counts = {row["user"]: row["count"] for row in closed["user_counts"]}
    assert counts == Counter(map(user_of, accepted))
    assert [row["count"] for row in closed["global_counts"]] == [len(accepted)]
