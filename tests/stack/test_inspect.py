"""Looking at a pipeline: everything is told, what is damaged is named beside the rest, and no driver is disturbed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from effectively_once.__main__ import main
from effectively_once.errors import SinkError, SourceError, UnreachableError, VersionError
from effectively_once.ledger import segments
from effectively_once.ledger.objects import Delete, Found, Get, Put, create_once, run
from effectively_once.sinks.kafka_shard import ShardAddress
from infra.embedded.ports import free_ports
from tests.stack.clicks import Clicks
from tests.stack.conftest import Configure
from tests.unit.library.ledger_driver import SHARDS
from tests.unit.library.names import ACCEPTED, GLOBAL_COUNTS, KAFKA_SINKS

pytestmark = pytest.mark.stack

EPOCHS = 8


@pytest.fixture
def clicks(clicks: Clicks) -> Clicks:
    """Run it for eight epochs, and stop it in order."""
    clicks.start("first").run(EPOCHS)
    return clicks


def inspected(clicks: Clicks, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["inspect", str(clicks.file), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def damage(clicks: Clicks, name: str, body: bytes | None = None) -> str:
    """Delete an object, or give it another content."""
    assert isinstance(clicks.store.answer(Get(name)), Found), name
    clicks.store.answer(Delete(name))
    if body is not None:
        clicks.store.answer(Put(name, body, None))
    return name


def test_a_healthy_pipeline_is_told_and_left_as_it_is(clicks: Clicks, capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: clicks.store.answer(Get(name)) for name in clicks.store.names("")}
    code, told = inspected(clicks, capsys, "--deep")
    assert (code, told["findings"], told["start"].partition("; not asked")[0]) == (0, [], "a driver would start")
    head = told["head"]
    assert (head["owner"], head["generation"], head["last_recorded"], head["declared"]) == ("first", 1, 7, None)
    assert head["recorded"]["ranges"] == {clicks.settings.topic: {"0": [70, 80]}}
    assert head["floor"] == clicks.head().floor > 0
    sharded = [(sink, shard, 7, 1) for sink in KAFKA_SINKS for shard in range(SHARDS)]
    assert [tuple(mark.values()) for mark in told["marks"]] == [*sharded, (GLOBAL_COUNTS, None, 7, 1)]
    live = EPOCHS - head["floor"]
    ids = told["deltas"]["ids"]
    assert (ids["deltas"], ids["inline"]) == (2 * live, live)
    assert ids["rows"] == sum(
        rows.rows for record in clicks.head().tail[-live:] for rows in record.deltas["ids"].values()
    )
    stored = [answer for name, answer in before.items() if "/deltas/ids/" in name]
    assert ids["bytes"] == sum(len(answer.body) for answer in stored if isinstance(answer, Found))
    assert {name: clicks.store.answer(Get(name)) for name in clicks.store.names("")} == before
    clicks.start("second").run(2)
    clicks.assert_published_once(EPOCHS + 2)


def test_a_driver_at_work_is_not_disturbed_and_not_taken_for_damage(
    clicks: Clicks, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = clicks.start("second")
    with clicks.running(driver):
        for _ in range(3):
            code, told = inspected(clicks, capsys, "--deep")
            assert (code, told["findings"]) == (0, [])
            assert told["start"].startswith(("a driver would start", "a driver is at work"))
            assert told["head"]["owner"] == "second"
    clicks.assert_published_once(driver.held.head.last_recorded + 1)


def test_a_half_published_epoch_is_told_as_it_is(clicks: Clicks, capsys: pytest.CaptureFixture[str]) -> None:
    for step in clicks.start("second").steps():
        if step == "accepted 0":
            break
    code, told = inspected(clicks, capsys)
    start = told["start"].partition("; not asked")[0]
    assert (code, start) == (0, "a driver would start; epoch 8 is declared and is repeated first")
    assert told["head"]["declared"]["epoch"] == 8
    accepted = {mark["shard"]: mark["epoch"] for mark in told["marks"] if mark["sink"] == ACCEPTED}
    assert accepted == {0: 8, 1: 7}


def test_everything_that_is_damaged_is_named_beside_the_rest(
    clicks: Clicks, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, floor = clicks.layout, clicks.head().floor
    lost = damage(clicks, layout.delta("ids", floor, 0))
    corrupt = damage(clicks, layout.delta("counts", floor + 1, 0), b"no Arrow")
    foreign = clicks.store.answer(Get(layout.delta("ids", floor + 1, 0)))
    assert isinstance(foreign, Found)
    swapped = damage(clicks, layout.delta("ids", floor + 2, 0), foreign.body)
    spark = f"{layout.checkpoint('000001-abcd')}/offsets/7"
    run(create_once(spark, b"not what Spark writes"), clicks.store)
    code, told = inspected(clicks, capsys)
    found = [(finding["part"], finding["error"], finding["where"]) for finding in told["findings"]]
    assert found == [
        ("deltas", "ChainError", lost),
        ("deltas", "ChainError", corrupt),
        ("deltas", "ChainError", swapped),
        ("checkpoint", "CheckpointError", spark),
    ]
    assert (code, told["start"]) == (76, "refused")
    assert (len(told["marks"]), told["head"]["last_recorded"], told["checkpoint"]["objects"]) == (7, 7, 1)
    assert told["checkpoint"]["bytes"] == len(b"not what Spark writes")
    assert main(["inspect", str(clicks.file)]) == 76
    text = capsys.readouterr().out
    assert text.count("\ndamage ") == 4


def test_damage_that_a_start_does_not_meet_is_found_by_a_deep_look(
    clicks: Clicks, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "TAIL_LIMIT", EPOCHS)
    clicks.start("second").run(2)
    segment = damage(clicks, clicks.layout.segment(*clicks.head().segments[0]), b"{}")
    file = damage(clicks, next(clicks.store.names(f"{clicks.layout.pipeline}/{GLOBAL_COUNTS}/data/")))
    assert inspected(clicks, capsys)[0] == 0
    code, told = inspected(clicks, capsys, "--deep")
    assert {(finding["part"], finding["where"]) for finding in told["findings"]} == {
        ("segments", segment),
        ("outputs", file),
    }
    assert code == 76


def test_without_a_head_marks_are_still_told(clicks: Clicks, capsys: pytest.CaptureFixture[str]) -> None:
    whole = clicks.store.answer(Get(clicks.layout.head))
    assert isinstance(whole, Found)
    for body, said in ((whole.body[:-50], "head cannot be read"), (None, "there is no head")):
        damage(clicks, clicks.layout.head, body)
        code, told = inspected(clicks, capsys)
        assert (code, told["head"], len(told["marks"]), told["start"]) == (76, None, 6, "refused")
        assert said in told["findings"][0]["what"]
        if body is not None:
            assert len(told["findings"]) == 1, "the refusal is the same damage, told once"


def test_a_mark_that_contradicts_the_chain_is_the_refusal_of_the_start(
    clicks: Clicks, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every sink is one epoch ahead, as after somebody put an older head back."""
    before = clicks.store.answer(Get(clicks.layout.head))
    assert isinstance(before, Found)
    clicks.start("second").run(1)
    damage(clicks, clicks.layout.head, before.body)
    code, told = inspected(clicks, capsys)
    refusal = told["findings"][-1]
    assert (code, told["start"], refusal["part"], refusal["error"]) == (76, "refused", "start", "SinkError")
    assert "progress mark 8 lies outside the chain's 7 to 7" in refusal["what"]


def test_a_mark_that_is_none_is_named(clicks: Clicks, capsys: pytest.CaptureFixture[str]) -> None:
    address = ShardAddress(clicks.settings.kafka_bootstrap, clicks.settings.pipeline, ACCEPTED, 1)
    producer = Producer({"bootstrap.servers": address.bootstrap})
    producer.produce(address.progress, b"no mark", b"mark", partition=1)
    assert producer.flush(20) == 0
    code, told = inspected(clicks, capsys)
    assert (code, told["start"], len(told["marks"])) == (76, "refused", 6)
    assert told["findings"][0]["where"] == "sink accepted shard 1"
    assert "a progress mark cannot be read" in told["findings"][0]["what"]


def test_a_broker_that_does_not_answer_does_not_hide_the_chain(
    clicks: Clicks, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    changes = {"kafka_bootstrap": f"127.0.0.1:{port}", "start_patience_s": 1.0}
    clicks.file.write_text(clicks.settings.model_copy(update=changes).model_dump_json())
    code, told = inspected(clicks, capsys)
    assert code == UnreachableError.exit_code
    assert {finding["error"] for finding in told["findings"]} == {"UnreachableError"}
    assert (told["head"]["last_recorded"], [mark["sink"] for mark in told["marks"]]) == (7, [GLOBAL_COUNTS])


def test_a_topic_that_is_gone_is_named_by_the_start_check(clicks: Clicks, capsys: pytest.CaptureFixture[str]) -> None:
    clicks.file.write_text(clicks.settings.model_copy(update={"topic": "none"}).model_dump_json())
    code, told = inspected(clicks, capsys)
    assert (code, told["start"], told["findings"][0]["error"]) == (SourceError.exit_code, "refused", "SourceError")


def test_a_topic_that_takes_no_write_is_named_by_the_start_check(
    clicks: Clicks, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{clicks.settings.pipeline}.{ACCEPTED}"
    configure(name, min_insync_replicas="2")
    code, told = inspected(clicks, capsys)
    assert (code, told["start"], told["findings"][0]["where"]) == (SinkError.exit_code, "refused", f"topic {name}")
    assert "min.insync.replicas is 2 and a partition has 1 replicas" in told["findings"][0]["what"]


def test_another_wheel_is_compared_when_it_is_named(
    clicks: Clicks, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    next(clicks.start("second").steps())
    assert inspected(clicks, capsys)[0] == 0
    monkeypatch.setenv("EFFECTIVELY_ONCE_WHEEL_DIGEST", "f" * 64)
    code, told = inspected(clicks, capsys)
    assert (code, told["findings"][0]["error"]) == (VersionError.exit_code, "VersionError")
