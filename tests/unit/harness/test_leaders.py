"""Who leads a pipeline's partitions, who could lead instead, and what the broker's tool answers."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.adapters.leaders import TRANSACTIONS, Leaders, Led, Where, of_pipeline, partition_of, wanted_of
from tests.harness.adapters.reassignment import document, read_started, refusal, reorder
from tests.harness.adapters.transactions import ToolFailedError

# What the tool of Kafka 4.3.1 said of three brokers, shortened by partitions.
SAID = """Current partition replica assignment

{"version":1,"partitions":[{"topic":"__transaction_state","partition":0,"replicas":[0,1,2],"log_dirs":["any","any"]}]}

Save this to use as the --reassignment-json-file option during rollback
Successfully started partition reassignments for __transaction_state-0,events-3,uc.accepted.progress-1
"""
UNKNOWN = """Error: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Topic nope not found.
java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Topic nope
\tat org.apache.kafka.tools.reassign.ReassignPartitionsCommand.main(ReassignPartitionsCommand.java:147)
"""
ORDERS: dict[Where, Sequence[int]] = {
    (TRANSACTIONS, 0): (1, 0, 2),
    ("events", 3): (0, 2, 1),
    ("uc.accepted.progress", 1): (0, 2, 1),
}


def led(leader: int, *copies: int, in_sync: Sequence[int] | None = None) -> Led:
    return Led(leader, copies, frozenset(copies if in_sync is None else in_sync))


def test_moves_go_around_the_copies_that_are_in_sync() -> None:
    assert led(0, 0, 1, 2).other == 1
    assert led(1, 0, 1, 2).other == 2
    assert led(2, 0, 1, 2).other == 0
    assert led(0, 0, 1, 2, in_sync=[0, 2]).other == 2


@pytest.mark.parametrize("one", [led(0, 0), led(0, 0, 1, 2, in_sync=[0]), led(-1, 0, 1, 2)])
def test_where_nobody_else_may_lead_nobody_is_wanted(one: Led) -> None:
    assert one.other is None
    assert wanted_of({("a", 0): one, ("b", 0): led(0, 0, 1)}) == {("b", 0): 1}


@pytest.mark.parametrize(
    ("transactional_id", "partition"),
    [("uc.accepted.0", 1), ("uc.accepted.1", 2), ("uc.dead_letter.0", 1), ("polygenelubricants", 0)],
)
def test_a_transactional_id_has_its_partition_of_the_log(transactional_id: str, partition: int) -> None:
    """As the broker's own class tells; two of the hashes are negative, and the last one has no absolute value."""
    assert partition_of(transactional_id, 4) == partition


def test_the_partitions_of_a_pipeline_are_its_source_its_sinks_their_marks_and_its_transactions() -> None:
    one, names = led(0, 0, 1, 2), ("events_uc", "uc.accepted", "uc.accepted.progress", "events_uc2", "uc2.accepted")
    topics = {**{name: {0: one, 1: one} for name in names}, TRANSACTIONS: dict.fromkeys(range(4), one)}
    found = of_pipeline(topics, "uc", "events_uc", 2)
    expected = {(name, number) for name in names[:3] for number in (0, 1)}
    assert set(found) == expected | {(TRANSACTIONS, 1), (TRANSACTIONS, 2)}
    del topics[TRANSACTIONS]
    assert set(of_pipeline(topics, "uc", "events_uc", 2)) == expected


def test_what_the_tool_has_started_is_read_from_what_it_says() -> None:
    assert read_started(SAID) == {"__transaction_state-0", "events-3", "uc.accepted.progress-1"}
    assert read_started("Successfully started partition reassignment for events-0\n") == {"events-0"}
    assert read_started(UNKNOWN) == set()
    assert "Topic nope not found" in refusal(UNKNOWN)
    assert refusal(SAID) == ""


def test_the_tool_is_told_every_copy_of_every_partition() -> None:
    assert json.loads(document({("events", 3): (0, 2, 1)})) == {
        "version": 1,
        "partitions": [{"topic": "events", "partition": 3, "replicas": [0, 2, 1]}],
    }


def tool(folder: Path, says: str, code: int) -> Path:
    """A program that keeps what it was asked, and answers so."""
    (folder / "says").write_text(says)
    program = folder / "java"
    program.write_text(f'#!/bin/sh\necho "$@" >{folder}/asked\ncat {folder}/says\nexit {code}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_the_brokers_tool_is_run_against_the_brokers(tmp_path: Path) -> None:
    reorder(tool(tmp_path, SAID, 0), Path("/jars"), "b:1,b:2", ORDERS)
    asked = (tmp_path / "asked").read_text()
    assert "-cp /jars/* org.apache.kafka.tools.reassign.ReassignPartitionsCommand" in asked
    assert "--bootstrap-server b:1,b:2 --reassignment-json-file" in asked
    assert "--execute" in asked


@pytest.mark.parametrize(
    ("says", "code", "why"),
    [
        (UNKNOWN, 1, "Topic nope not found"),
        ("", 0, "nothing was said of __transaction_state-0, events-3, uc.accepted.progress-1"),
        (SAID.replace(",events-3", ""), 0, "nothing was said of events-3"),
        (SAID, 1, "nothing was said of"),
    ],
)
def test_what_the_tool_has_not_done_is_an_error(tmp_path: Path, says: str, code: int, why: str) -> None:
    with pytest.raises(ToolFailedError, match=why):
        reorder(tool(tmp_path, says, code), Path("/jars"), "b:1", ORDERS)
    with pytest.raises(ToolFailedError, match="No such file"):
        reorder(tmp_path / "none", Path("/jars"), "b:1", ORDERS)


class Answer:
    """What a client promises."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self, _timeout_s: float = 0.0) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class FakeAdmin:
    """A client of three brokers of plain data."""

    def __init__(self) -> None:
        self.copies: dict[Where, tuple[int, ...]] = {("events_uc", 0): (0, 1, 2), ("uc.accepted", 0): (1, 2, 0)}
        self.errors: dict[Where, int] = {}
        self.asked: list[str] = []

    def list_topics(self, timeout: float) -> Any:
        self.asked.append("topics")
        topics: dict[str, Any] = {}
        for (name, number), copies in self.copies.items():
            one = SimpleNamespace(leader=copies[0], replicas=list(copies), isrs=list(copies))
            topics.setdefault(name, SimpleNamespace(partitions={})).partitions[number] = one
        return SimpleNamespace(topics=topics)

    def elect_leaders(self, _kind: Any, partitions: list[TopicPartition]) -> Answer:
        errors = {(one.topic, one.partition): self.errors.get((one.topic, one.partition)) for one in partitions}
        return Answer(
            {TopicPartition(*where): None if code is None else KafkaError(code) for where, code in errors.items()}
        )

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], request_timeout: float
    ) -> dict[TopicPartition, Answer]:
        self.asked.append("offsets")
        return {
            one: Answer(KafkaException(KafkaError(self.errors[one.topic, one.partition])))
            if (one.topic, one.partition) in self.errors
            else Answer(SimpleNamespace(leader_epoch=7))
            for one in wanted
        }


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


def leaders(admin: FakeAdmin, *, works: bool = True) -> Leaders:
    def take(orders: Mapping[Where, Sequence[int]]) -> None:
        if works:
            admin.copies |= {where: tuple(order) for where, order in orders.items()}

    made = Leaders("b:1", "uc", "events_uc", 2, take)
    made._admin = admin
    return made


def test_another_one_is_preferred_and_every_copy_stays(admin: FakeAdmin) -> None:
    asked = leaders(admin)
    asked.prefer({("uc.accepted", 0): 2}, asked.led())
    assert admin.copies == {("events_uc", 0): (0, 1, 2), ("uc.accepted", 0): (2, 1, 0)}


def test_an_order_that_the_brokers_do_not_tell_of_is_an_error(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.harness.adapters.leaders.TIMEOUT_S", 0.1)
    asked = leaders(admin, works=False)
    with pytest.raises(ToolFailedError, match="former order"):
        asked.prefer({("uc.accepted", 0): 2}, asked.led())


def test_who_leads_already_needs_no_election_and_a_refused_one_is_named(admin: FakeAdmin) -> None:
    asked = leaders(admin)
    admin.errors = {
        ("events_uc", 0): KafkaError.ELECTION_NOT_NEEDED,
        ("uc.accepted", 0): KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    }
    assert asked.elect(list(admin.copies)) == {("uc.accepted", 0): "PREFERRED_LEADER_NOT_AVAILABLE"}
    assert asked.elect([]) == {}


def test_leader_epochs_are_asked_of_the_leaders_of_now(admin: FakeAdmin) -> None:
    asked = leaders(admin)
    assert asked.epochs([("events_uc", 0)]) == {("events_uc", 0): 7}
    assert admin.asked == ["topics", "offsets"], "a client that has seen no change asks those who led before"
    admin.errors = {("events_uc", 0): KafkaError.OFFSET_NOT_AVAILABLE}
    with pytest.raises(KafkaException):
        asked.epochs([("events_uc", 0)])
