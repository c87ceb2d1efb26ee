"""An epoch of which a shard has shown a part, repaired by the command and real drivers: every record counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from effectively_once.errors import SinkError
from effectively_once.operate.abandon.repair import repair
from effectively_once.pipeline.job import job_of
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.spark.outputs import rows
from tests.spark.pipeline import PARTITIONS, Commanded, Outgoing, Pipeline
from tests.spark.records import START_MS, good
from tests.spark.truncated_job import JOB, KEPT, VARIABLE

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MINUTE_MS, USERS = 60_000, 7
ENDED_S = 240.0
REFUSALS = "decided otherwise in step 'ids', shard 0", "(sink accepted shard 0)"
"""Ids that are few travel in the epoch's record: then the sink is the first to hold what was decided before."""


class Truncated(Commanded):
    """The pipeline of `truncated_job`; drivers are started by the command."""

    create_topics = Pipeline.create_topics

    @property
    def own_env(self) -> Mapping[str, str]:
        return {**super().own_env, VARIABLE: str(self.asked)}

    @property
    def asked(self) -> Path:
        """While it is there the next attempt takes a part."""
        return self.folder / "truncate"


@pytest.fixture
def pipeline(stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path) -> Truncated:
    made = Truncated(toolchain, stack.endpoints, tmp_path, "repaired", {"job": JOB, "dense_offsets": True})
    made.create_topics()
    return made


def sent(first: int, number: int, minute: int) -> list[Outgoing]:
    """Records of one minute; each tenth is malformed, each ninth a copy of the one before."""
    made: list[Outgoing] = []
    for n in range(first, first + number):
        if n % 10 == 3:
            made.append(Outgoing(b'{"user":"u"}', n % PARTITIONS, reason="missing_id"))
        elif n % 9 == 4:
            made.append(Outgoing(**{**made[-1].__dict__, "partition": n % PARTITIONS}))
        else:
            time_ms = START_MS // MINUTE_MS * MINUTE_MS + minute * MINUTE_MS + n % 1000
            made.append(good(f"r{n:05d}", f"u{n % USERS}", time_ms, n % PARTITIONS))
    return made


def test_a_truncated_epoch_is_finished_as_shown_and_the_next_one_takes_the_rest(pipeline: Truncated) -> None:
    driver = pipeline.start()
    pipeline.send(sent(0, 200, 1))
    pipeline.wait_processed(driver)
    pipeline.asked.touch()
    pipeline.send(sent(200, 400, 1))
    wait_for("the driver to refuse its own repeat", ENDED_S, lambda: not driver.running())
    again = pipeline.start()
    wait_for("the next one to refuse it", ENDED_S, lambda: not again.running())
    for refused in (driver, again):
        assert refused.status() == SinkError.exit_code
        log = refused.log.read_text()
        assert any(text in log for text in REFUSALS)
    declared = pipeline.head().declared
    assert declared is not None
    shown = [row for row in rows(pipeline, "accepted") if row["epoch"] == declared.epoch]
    assert 0 < len(shown) < 400, "a part is visible"

    job = job_of(pipeline.write_settings())
    said: list[str] = []
    repair(job, said.append, yes=True)
    assert f"finishes epoch {declared.epoch} as it is shown" in said[-1]

    driver = pipeline.start()
    pipeline.send(sent(600, 100, 9))
    pipeline.wait_processed(driver)
    pipeline.send(sent(700, 20, 9))
    pipeline.wait_processed(driver)
    _exact(pipeline, declared.epoch)


def _exact(pipeline: Truncated, repaired: int) -> None:
    good_ = {send.id: send for send in reversed(pipeline.sends) if send.reason is None}
    accepted = rows(pipeline, "accepted")
    assert Counter(row["id"] for row in accepted) == Counter(dict.fromkeys(good_, 1))
    assert {row["epoch"] for row in accepted} >= {repaired, repaired + 1}
    dead = Counter(tuple(row["source"]) for row in rows(pipeline, "dead_letter"))
    assert dead == Counter(send.coordinate for send in pipeline.sends if send.reason is not None)
    expected = Counter(
        (send.user, send.event_time_ms // MINUTE_MS * MINUTE_MS)
        for send in good_.values()
        if send.event_time_ms is not None and send.event_time_ms < START_MS + 4 * MINUTE_MS
    )
    counts = {(row["user"], row["window_start_ms"]): row["count"] for row in rows(pipeline, "user_counts")}
    assert counts == dict(expected)
    records = {record.epoch: record for record in pipeline.epochs()}
    assert records[repaired].shown["0"].rows == KEPT
    assert records[repaired + 1].repairs == repaired
