"""The Kafka source: which topic it is, and what it refuses before anything is read (R3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from effectively_once.errors import SourceError, UnreachableError
from effectively_once.ledger import chain
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.objects import run
from effectively_once.sources.kafka import KafkaSource
from infra.embedded.ports import free_ports
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from tests.settings import pipeline_settings
from tests.stack.conftest import Topic
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, declaration, record_of, taken

pytestmark = pytest.mark.stack
HOUR_MS = 3_600_000


def _source(bootstrap: str, name: str, patience_s: float = 15.0) -> KafkaSource:
    return KafkaSource(pipeline_settings(topic=name, kafka_bootstrap=bootstrap, start_patience_s=patience_s))


@pytest.fixture
def name(pipeline: str) -> str:
    """Name a topic that no other test uses."""
    return f"events-{pipeline}"


@pytest.fixture
def source(stack: EmbeddedStack, name: str) -> KafkaSource:
    """Open a source of that topic, which need not exist yet."""
    return _source(stack.endpoints.kafka_bootstrap, name)


def _one_line(error: Exception) -> bool:
    return "\n" not in str(error)


def _delete(admin: AdminClient, source: KafkaSource, name: str) -> None:
    admin.delete_topics([name])[name].result(30)

    def gone() -> bool:
        try:
            source.topic_ids()
        except SourceError:
            return True
        return False

    wait_for(f"topic {name} to be gone", 20, gone)


def _declared(ids: dict[str, str]) -> Declaration:
    ranges = {name: {"0": (0, 5)} for name in ids}
    return declaration(0, ranges).model_copy(update={"topic_ids": ids})


def _head(ids: dict[str, str], recorded: bool) -> Head:
    """Return a chain whose only epoch, declared or recorded, was read from the topics of these ids."""
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, taken(store), _declared(ids), None, 0), store)
    return run(chain.record(LAYOUT, held, record_of(_declared(ids))), store).head if recorded else held.head


def test_a_topic_keeps_its_id_and_no_two_topics_share_one(source: KafkaSource, name: str, topic: Topic) -> None:
    topic(name, 2)
    other = topic(f"{name}.other")
    ids = source.topic_ids()
    assert list(ids) == [name]
    assert source.topic_ids() == ids
    bootstrap = source._settings.kafka_bootstrap
    assert _source(bootstrap, name).topic_ids() == ids
    assert set(_source(bootstrap, other).topic_ids().values()).isdisjoint(ids.values())


@pytest.mark.parametrize("recorded", [False, True], ids=["declared", "recorded"])
def test_a_topic_that_was_deleted_and_created_again_is_refused_with_both_ids(
    source: KafkaSource, name: str, topic: Topic, admin: AdminClient, recorded: bool
) -> None:
    topic(name)
    before = source.topic_ids()
    head = _head(before, recorded)
    source.same_topic(head, source.topic_ids())
    _delete(admin, source, name)
    topic(name)
    after = source.topic_ids()
    with pytest.raises(SourceError, match="deleted and created again") as refused:
        source.same_topic(head, after)
    assert before[name] != after[name]
    for part in (before[name], after[name], f"topic {name}"):
        assert part in str(refused.value)
    assert _one_line(refused.value)


def test_a_chain_without_epochs_knows_no_topic_and_refuses_none(source: KafkaSource) -> None:
    source.same_topic(taken(MemoryStore()).head, {"any": "id"})


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_is_refused(source: KafkaSource, name: str, topic: Topic, policy: str) -> None:
    topic(name, 1, cleanup_policy=policy)
    with pytest.raises(
        SourceError, match=f"the topic is compacted.*topic {name}.*Set cleanup.policy=delete"
    ) as refused:
        source.refuse_compacted(source.topic_settings())
    assert _one_line(refused.value)


def test_a_topic_that_is_not_compacted_is_taken(source: KafkaSource, name: str, topic: Topic) -> None:
    topic(name)
    source.refuse_compacted(source.topic_settings())


def test_a_topic_that_does_not_exist_is_named_by_every_question(source: KafkaSource, name: str) -> None:
    for ask in (source.topic_ids, source.topic_settings, source.first_offsets):
        with pytest.raises(SourceError, match=f"the input topic does not exist .topic {name}") as refused:
            ask()
        assert _one_line(refused.value)


def test_a_broker_that_does_not_answer_is_named_by_every_question() -> None:
    (port,) = free_ports(1)
    source = _source(f"127.0.0.1:{port}", "events", patience_s=1.0)
    for ask in (source.topic_ids, source.topic_settings, source.first_offsets):
        with pytest.raises(
            UnreachableError, match=f"broker does not answer: .*127.0.0.1:{port}.*nothing was lost"
        ) as refused:
            ask()
        assert _one_line(refused.value)


def test_a_pipeline_begins_at_the_earliest_offset_that_is_there(
    source: KafkaSource, name: str, topic: Topic, admin: AdminClient, stack: EmbeddedStack
) -> None:
    topic(name, 3)
    producer = Producer({"bootstrap.servers": stack.endpoints.kafka_bootstrap})
    for n in range(5):
        producer.produce(name, str(n).encode(), partition=1)
    producer.flush(30)
    assert source.first_offsets() == {name: {"0": 0, "1": 0, "2": 0}}
    _shorten(admin, name, 1, 3)
    assert source.first_offsets() == {name: {"0": 0, "1": 3, "2": 0}}


def test_several_topics_are_asked_for_in_one_and_each_has_its_own_offsets(
    name: str, topic: Topic, stack: EmbeddedStack
) -> None:
    other = f"{name}-other"
    topic(name, 1)
    topic(other, 2)
    producer = Producer({"bootstrap.servers": stack.endpoints.kafka_bootstrap})
    producer.produce(other, b"a", partition=1)
    assert producer.flush(30) == 0
    source = _source(stack.endpoints.kafka_bootstrap, f"{other},{name}")
    assert source.last_offsets() == {name: {"0": 0}, other: {"0": 0, "1": 1}}
    assert {*source.topic_ids()} == {*source.topic_settings()} == {name, other}
    source.within({name: {"0": (0, 0)}, other: {"0": (0, 0), "1": (0, 1)}})
    missing = _source(stack.endpoints.kafka_bootstrap, f"{name},{name}-missing")
    with pytest.raises(SourceError, match=f"the input topic does not exist .topic {name}-missing"):
        missing.first_offsets()


def _shorten(admin: AdminClient, name: str, partition: int, offset: int) -> None:
    """Delete what lies before an offset, as retention does."""
    place = TopicPartition(name, partition, offset)
    for future in admin.delete_records([place]).values():
        future.result(30)


def test_ranges_beyond_what_is_committed_are_refused_by_name(stack: EmbeddedStack, topic: Topic, name: str) -> None:
    topic(name, partitions=2)
    producer = Producer(
        {"bootstrap.servers": stack.endpoints.kafka_bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"a", partition=0)
    producer.commit_transaction(30)
    source = _source(stack.endpoints.kafka_bootstrap, name)
    # One record, and the marker of its transaction.
    source.within({name: {"0": (0, 2), "1": (0, 0)}})
    # Now it is connected: each of the three refusals below waits this long.
    source._settings = source._settings.model_copy(update={"start_patience_s": 1.5})
    says = f"a range ends at offset {{}}, .* up to {{}} .*topic {name} partition {{}}"
    for beyond, told in (({"0": (0, 3), "1": (0, 0)}, (3, 2, 0)), ({"0": (0, 2), "1": (0, 1)}, (1, 0, 1))):
        with pytest.raises(SourceError, match=says.format(*told)):
            source.within({name: beyond})
    producer.begin_transaction()
    producer.produce(name, b"b", partition=0)
    producer.flush(30)
    with pytest.raises(SourceError, match=says.format(3, 2, 0)):
        source.within({name: {"0": (2, 3)}})
    producer.commit_transaction(30)
    source.within({name: {"0": (2, 3)}})


def test_a_new_pipeline_begins_at_a_time_in_each_partition_of_its_own(
    stack: EmbeddedStack, name: str, topic: Topic
) -> None:
    """One partition has records on both sides of it, one has older ones alone, one is empty."""
    topic(name, 3)
    producer = Producer({"bootstrap.servers": stack.endpoints.kafka_bootstrap})
    # Of today: by their time the broker deletes older ones.
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    for partition, hours in ((0, -2), (0, -1), (0, 0), (0, -1), (0, 1), (1, -2), (1, -1)):
        producer.produce(name, b"{}", partition=partition, timestamp=int(at.timestamp() * 1000) + hours * HOUR_MS)
    assert producer.flush(30) == 0
    settings = pipeline_settings(topic=name, kafka_bootstrap=stack.endpoints.kafka_bootstrap, begins_at=at.isoformat())
    assert KafkaSource(settings).starts() == {name: {"0": 2, "1": 2, "2": 0}}
    assert _source(stack.endpoints.kafka_bootstrap, name).starts() == {name: {"0": 0, "1": 0, "2": 0}}
