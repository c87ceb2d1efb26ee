"""The card ledger: bad input is told by name, a recorded call is not made again, and the demo shows what it claims."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from effectively_once import KafkaRecord, Trial
from effectively_once.driver.spark_state import PARTITIONS
from effectively_once_jobs import card_ledger
from effectively_once_jobs.card_ledger.balances import running_balances
from effectively_once_jobs.card_ledger.payments import VARIABLE
from infra.console import Console
from tests.experiments.card_ledger.demo import CardDemo, on_embedded
from tests.experiments.card_ledger.judge import judge
from tests.experiments.card_ledger.payments.mischief import Mischief
from tests.experiments.card_ledger.payments.server import PaymentService
from tests.experiments.card_ledger.ways import KEYED, PLAIN, RESTRUCTURED
from tests.harness.results import Verdict

pytestmark = pytest.mark.spark
LOCAL = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
NOW_MS, DAY_MS = 1_700_000_000_000, 24 * 3_600_000
SEED, RECORDS, KILLS = 7, 1_000, 2


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PaymentService]:
    running = PaymentService(tmp_path / "journal.jsonl", tmp_path / "payments.log", 3, Mischief(SEED))
    running.start()
    monkeypatch.setenv(VARIABLE, running.address)
    yield running
    running.stop()


def sent(id_: str, **fields: Any) -> KafkaRecord:
    row = {"id": id_, "card": "card-0001", "amount_cents": 5, "event_time_ms": NOW_MS, **fields}
    return KafkaRecord({name: value for name, value in row.items() if value is not None}, timestamp_ms=NOW_MS)


def test_a_call_that_is_recorded_is_not_made_again(service: PaymentService, spark: SparkSession) -> None:
    trial = Trial(card_ledger.plain, spark)
    first = trial.epoch([sent("a"), sent("b", card="card-9999"), sent("a", amount_cents=6)])
    assert {row["id"]: row["outcome"] for row in first["charges"]} == {"a": "charged", "b": "unknown_card"}
    assert trial.last.counts.duplicate == 1, "one id with another payload: the first counts"
    assert trial.repeat() == first
    assert service.cards()["card-0001"]["balance"] == 5


def test_what_is_no_transaction_is_refused_by_name_and_never_charged(
    service: PaymentService, spark: SparkSession
) -> None:
    bad = {
        "negative": sent("negative", amount_cents=-5),
        "zero": sent("zero", amount_cents=0),
        "half": sent("half", amount_cents=2.5),
        "text": sent("text", amount_cents="five"),
        "free": sent("free", amount_cents=None),
        "nobody": sent("nobody", card=None),
        "blank": sent("blank", card=""),
        "timeless": sent("timeless", event_time_ms=None),
        "far": sent("far", event_time_ms=NOW_MS + DAY_MS + 1),
    }
    trial = Trial(card_ledger.keyed, spark)
    given = trial.epoch([*bad.values(), sent("", card="card-0002"), KafkaRecord("{broken", timestamp_ms=NOW_MS)])
    assert {row["id"]: row["reason"] for row in given["dead_letter"] if row["id"]} == {
        **dict.fromkeys(("negative", "zero", "half", "text", "free"), "bad_amount"),
        **dict.fromkeys(("nobody", "blank"), "missing_card"),
        "timeless": "bad_time",
        "far": "ahead",
    }
    assert sorted(row["reason"] for row in given["dead_letter"] if not row["id"]) == ["missing_id", "not_json"]
    assert given["charges"] == []
    assert all(account["balance"] == 0 for account in service.cards().values())


def test_balances_of_a_stream_are_told_with_proof_that_they_are_all(
    service: PaymentService, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shuffle with closing rows stands between the operator and the call (R13); an epoch with none is whole too."""
    monkeypatch.setitem(spark.sparkContext.environment, VARIABLE, service.address)
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.checkpointFileManagerClass", LOCAL)
    session.conf.set(PARTITIONS, "2")
    (folder := tmp_path / "rows").mkdir()
    stream = session.readStream.schema("card string, amount_cents long").json(f"file:{folder}")
    writer = running_balances(stream).writeStream.format("noop").trigger(availableNow=True)
    for number in range(2):
        lines = [{"card": f"card-000{1 + row % 2}", "amount_cents": row} for row in range(10)]
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, lines)))
        writer.option("checkpointLocation", f"file:{tmp_path}/checkpoint").start().awaitTermination()
    found = {card: (account["balance"], account["version"]) for card, account in service.cards().items()}
    assert (found["card-0001"], found["card-0002"]) == ((40, 10), (50, 10))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_plain_call_doubles_under_kills_and_the_other_two_ways_do_not(tmp_path: Path) -> None:
    console = Console()
    results = CardDemo(tmp_path, "embedded", partial(on_embedded, console), SEED, console, RECORDS, KILLS).run()
    assert results.verdict is Verdict.PASS, results.reasons
    plain, keyed, restructured = (results.way(one.name) for one in (PLAIN, KEYED, RESTRUCTURED))
    assert plain.doubled_by_replay > 0
    assert (keyed.doubled, keyed.balances_wrong) == (restructured.doubled, restructured.balances_wrong) == (0, 0)
    assert min(keyed.repeated, restructured.repeated) > 0
    (run,) = (one for one in (tmp_path / "runs" / "cards").iterdir() if not one.is_symlink())
    assert judge(run) == results, "from its files alone"
