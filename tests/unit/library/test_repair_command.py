"""The command around a repair: what it refuses before it looks, what it tells, and where rows say they were read."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToKafka, ToTable
from effectively_once.errors import ControlError, SinkError
from effectively_once.ledger import chain, interventions
from effectively_once.ledger.objects import run
from effectively_once.operate.abandon import abandon, fenced, repair
from effectively_once.operate.abandon.fenced import sources
from effectively_once.operate.backup.backup import Backup
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.operate.backup.restore import restore
from effectively_once.pipeline.columns import COORDINATES, DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.stateful import Stateful
from effectively_once.sinks.kafka_shard import ShardAddress
from tests.unit.ledger.samples import due_of
from tests.unit.library.broken_epochs import EPOCHS, HIT, assert_exact, assert_goes_on, broken
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.orders_world import COLUMNS, MENDED, OLD, World


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command on a pipeline in memory, whose surroundings are in order."""

    class Surroundings:
        def __init__(self, *_: Any) -> None:
            pass

        def surroundings(self, *_: Any) -> dict[str, str]:
            return {}

        accept = refuse_lost_input = marks = surroundings

    def carry_out(world: World, *, which: Any = repair, **how: Any) -> list[str]:
        told: list[str] = []
        mending = world.mending()
        monkeypatch.setattr(which, "S3ObjectStore", lambda _: world.store)
        monkeypatch.setattr(which, "KafkaSource", lambda _: None)
        monkeypatch.setattr(which, "Preflight", Surroundings)
        if which is repair:
            monkeypatch.setattr(repair, "shown_shards", lambda _: mending.shards)
            monkeypatch.setattr(repair, "files", lambda *_: mending.files)
        getattr(which, which.__name__.rsplit(".", 1)[1])(Job(world.pipeline, world.settings), told.append, **how)
        return told

    return carry_out


def test_without_yes_it_tells_and_changes_nothing(command: Any) -> None:
    world = broken()
    before = dict(world.store.objects)
    told = command(world)
    assert world.store.objects == before
    rows = [len(world.sinks[name, 0].log[HIT]) for name in ("accepted", "dead_letter")]
    assert told == [
        f"epoch {HIT} is declared, by wheel {OLD[:12]} in lineage 000001-abcd",
        f"shard 0: accepted shows {rows[0]} rows (topic t.accepted partition 0), "
        f"dead_letter shows {rows[1]} rows (topic t.dead_letter partition 0), orders shows {rows[0]} rows "
        f"(table t.orders), {rows[0]} ids are decided",
        told[2],
        "shards 0 can be finished as shown; the next epoch takes what they leave of the input",
        "nothing was changed; stop every driver, then run this again with --yes",
    ]
    assert told[2].startswith("shard 1: ")


def test_with_yes_it_pins_and_tells_what_comes_next_and_again_what_there_is_by_then(command: Any) -> None:
    world = broken()
    assert command(world, yes=True)[-1] == (
        f"the next driver finishes epoch {HIT} as it is shown, and publishes what it lacks as epoch {HIT + 1}"
    )
    assert world.head.owner.startswith("repair-")
    assert world.declared.wheel_digest == OLD
    assert "it is to be finished as shards 0 showed it before" in command(world, yes=True, wheel_digest=MENDED)
    assert world.declared.wheel_digest == MENDED
    driver = world.driver(MENDED)
    driver.finish(world.declared)
    assert command(world, yes=True) == [
        f"epoch {HIT} is finished as it was shown; the next driver publishes what it lacks"
    ]
    driver = world.driver(MENDED)
    due = due_of(driver.held.head)
    driver.held = run(chain.declare(world.layout, driver.held, due, None, 0), world.store)
    with pytest.raises(ControlError, match=f"epoch {HIT + 1} repairs epoch {HIT} itself"):
        command(world, yes=True)
    with pytest.raises(ControlError, match=f"epoch {HIT + 1} repairs epoch {HIT}: what that one lacks would be lost"):
        command(world, which=abandon, yes=True)
    world.driver(MENDED).run(0)
    assert command(world) == [f"epoch {HIT} is repaired by epoch {HIT + 1}; nothing is left to do"]
    world.driver(MENDED).run(EPOCHS - HIT - 1)
    with pytest.raises(ControlError, match="no epoch is declared"):
        command(world)
    assert_exact(world)


def test_what_nobody_saw_is_decided_again(command: Any) -> None:
    world = broken(after=None)
    told = command(world, yes=True)
    assert "nothing of it is visible; what was decided is decided again" in told
    assert told[-1] == f"the next driver publishes epoch {HIT}"


def test_an_abandoned_epoch_is_not_repaired(command: Any) -> None:
    world = broken(after=None)
    held = run(chain.take_over(world.layout, "operator", {}), world.store)
    run(interventions.abandon(world.layout, held), world.store)
    with pytest.raises(ControlError, match=f"epoch {HIT} is abandoned and covers nothing"):
        command(world)


def test_a_pipeline_that_never_ran_has_nothing_to_repair(command: Any) -> None:
    with pytest.raises(ControlError, match="no epoch is declared"):
        command(World([], 1))


def test_a_job_that_lacks_a_sink_of_before_repairs_nothing(command: Any) -> None:
    world = broken()
    before = world.head
    world.pipeline = Pipeline(lambda frame: frame, COLUMNS, rows=(ToKafka("accepted"),))
    with pytest.raises(SinkError, match=r"this job has no sinks .*Repair the epoch with the job that has them"):
        command(world, yes=True)
    assert world.head == before


@pytest.mark.parametrize("kind", ["stateful", "at_least_once"])
def test_pipelines_that_cannot_be_repaired_are_refused_before_any_server_is_asked(kind: str) -> None:
    world = World([], 1)
    pipeline, settings = world.pipeline, world.settings
    if kind == "stateful":
        query = Stateful(lambda frame: frame, pa.schema([("user", pa.string())]), "user", ToKafka("results"))
        pipeline = Pipeline(lambda frame: frame, COLUMNS, stateful=query)
    else:
        settings = settings.model_copy(update={"semantics": "at_least_once"})
    wanted = "state is Spark's own" if kind == "stateful" else "has no marks"
    with pytest.raises(ControlError, match=wanted):
        repair.repair(Job(pipeline, settings), lambda _: None, yes=True)


def test_rows_tell_where_they_were_read_or_not_at_all() -> None:
    line = json.dumps({"source": ["events", 1, 7], "id": "a"}).encode()
    found = sources([line, line])
    assert found is not None
    assert found.schema.equals(COORDINATES)
    assert found.to_pylist() == [{"topic": "events", "partition": 1, "offset": 7}] * 2
    nothing = sources([])
    assert nothing is not None
    assert nothing.num_rows == 0
    for wrong in ("", "7", "{}", "[]", '{"source": 5}', '{"source": ["a", 1]}', '{"source": ["a", "1", 2]}'):
        assert sources([line, wrong.encode()]) is None
    assert sources([line, b"\xff"]) is None


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("sinks", ["all", "a table"])
def test_a_backup_between_the_command_and_the_repair_can_be_gone_on_from(recorded: bool, sinks: str) -> None:
    """It has the rows that are shown, or the ids that tell them: both epochs read these."""
    if sinks == "all":
        world = broken(3)
    else:
        alone = Pipeline(lambda frame: frame, COLUMNS, window_ms=100, lateness_ms=100, rows=(ToTable("orders"),))
        world = broken(after=("orders", 0), pipeline=alone, part=lambda _, rows: rows.slice(0, rows.num_rows // 2))
    world.repair()
    if recorded:
        world.driver().finish(world.declared)
    kept = ListedStore()
    Backup(world.store, world.layout, BackupLocation(kept, "memory"), list(world.pipeline.file_sinks)).take()
    world.store = ListedStore()
    restore(BackupLocation(kept, "memory"), world.store, world.layout, lambda _: None, lambda _: None)
    assert_goes_on(world)


def test_results_among_the_dead_letters_are_no_rows_of_the_input() -> None:
    """A repeat finds them in the state; no offset of the epoch is theirs."""
    rows = pa.table({"topic": ["orders", "clicks.per_user"], "partition": [0, 1], "offset": [7, 0]})
    for sink, kept in ((DEAD_LETTER, ["orders"]), ("accepted", ["orders", "clicks.per_user"])):
        found = fenced._Messages(ShardAddress("127.0.0.1:1", "clicks", sink, 1))._records(rows)
        assert found is not None
        assert found["topic"].to_pylist() == kept
