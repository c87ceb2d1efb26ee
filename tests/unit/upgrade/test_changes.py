"""Which changes there are, what each sets, and where it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from infra.settings.load import load
from infra.settings.security import Security
from tests.harness.stack.names import names
from tests.harness.upgrade.changes import (
    BUMPS,
    CHANGES,
    NOT_PLAYED,
    Facts,
    NoChangeError,
    Step,
    choose,
    count_steps,
    raise_cpu,
    sort_out,
)
from tests.harness.upgrade.look import Look, Server
from tests.harness.upgrade.run import PORTION_ROWS, settings_of, subject_of

IMAGES = {name: f"local/{name}:1" for name in ("spark", "spark-operator", "kafka", "minio", "postgres")} | {
    "job-effectively-once-upgrade": "local/job:1"
}
SECURE = Security(spark=True, result_store=True)
ROLES = ("broker", "object store", "operator", "result store")
NAME = "up_20261128"


def facts(security: Security = SECURE, roles: tuple[str, ...] = ROLES, **server: Any) -> Facts:
    pod = Server(**{"uid": "p", "ready": True, "cpu": "60m", "memory": "512Mi", "memory_limit": "896Mi", **server})
    settings = {"epoch_rows_max": 24_000, "lateness_ms": 120_000, "shards": 2}
    look = Look(servers=dict.fromkeys(roles, (pod,)))
    return Facts(NAME, security, 2, settings, lambda it: str(sorted(it.items())), look)


def steps(of: Facts) -> list[Step]:
    return [step for one in CHANGES for step in one.steps(of)]


def test_every_setting_of_a_change_is_one_of_the_stack() -> None:
    """As Pulumi would have them: laid over a profile, with the run's own pipeline."""
    subject = subject_of(7, 2)
    config: dict[str, Any] = {"profile": "laptop", "spark_operator": {"crds": "crds"}, "pipelines": {"user_counts": {}}}
    bump = {f"pipelines.{NAME}.wheel": "effectively-once-upgrade"}
    for sets in (settings_of(*names(f"{NAME}", "up"), subject), settings_of(NAME, "events_up", subject), bump):
        _lay(config, sets)
    _lay(config, {"security.spark": "true", "security.result_store": "true"})
    for one in steps(facts()):
        _lay(config, one.sets)
        settings = load(config, IMAGES)
        _lay(config, one.undo)
    found = settings.pipelines[NAME]
    assert (found.identity, found.job) == (NAME, "effectively_once_jobs.user_counts")
    assert found.wheel == "effectively-once-upgrade"
    assert (found.window_ms, found.lateness_ms) == (subject.window_ms, subject.lateness_ms)
    assert (found.executors.count, found.epoch_rows_max) == (2, 24_000)
    assert (settings.security.rotation, settings.security.authority) == (1, 1)
    assert settings.kafka.resources is not None
    assert settings.kafka.resources.cpu_request == "61m"


def _lay(config: dict[str, Any], sets: Any) -> None:
    for path, text in sets.items():
        *parents, last = path.split(".")
        where = config
        for name in parents:
            where = where.setdefault(name, {})
        where[last] = {"true": True}.get(text, int(text) if text.isdecimal() else text)


def test_twenty_wheels_in_a_row_and_each_back_and_forth() -> None:
    made = steps(facts())
    assert [one.bump for one in made if one.name == "wheel"] == [*range(1, BUMPS + 1)]
    assert count_steps(made) == {
        "setting": 2,
        "executors": 2,
        "shards": 2,
        "operator": 1,
        "kafka-chart": 1,
        "store-chart": 1,
        "passwords": 1,
        "certificates": 1,
        "lateness": 1,
        "wheel": 20,
    }
    last = {path: one.sets[path] for one in made for path in one.sets}
    assert last[f"pipelines.{NAME}.executors.count"] == "2"
    assert last[f"pipelines.{NAME}.epoch_rows_max"] == "24000"
    assert last[f"pipelines.{NAME}.shards"] == "2"
    assert [one.shards for one in made if one.shards is not None] == [3, 2]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("wheels", "there is no change 'wheels' (CHANGES=); there are: setting, executors, "),
        ("", "there is no change ''"),
        ("executors,spark", f"change spark is not made here: {NOT_PLAYED['spark']}"),
    ],
)
def test_a_name_of_none_is_refused_with_those_there_are(names: str, says: str) -> None:
    with pytest.raises(NoChangeError) as refused:
        choose(names)
    assert says in str(refused.value)


def test_one_is_made_alone_and_once() -> None:
    assert [one.name for one in choose("executors, setting,executors")] == ["executors", "setting"]
    assert [one.name for one in choose(None)] == [one.name for one in CHANGES]


@pytest.mark.parametrize(
    ("name", "of", "says"),
    [
        ("passwords", facts(Security()), "`pulumi config set --path security.spark true`, then `make up`"),
        ("certificates", facts(Security()), "`pulumi config set --path security.result_store true`, then `make up`"),
        ("certificates", facts(roles=("broker",)), "no server has certificates"),
        ("wheel", facts(Security(pinned_images=True)), "set security.pinned_images false"),
        ("operator", facts(roles=("broker",)), "the operator is none of this stack's pods"),
        ("kafka-chart", facts(cpu=""), "the broker states no resources: set kafka.resources"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name_and_left_out_otherwise(name: str, of: Facts, says: str) -> None:
    chosen = choose(name)
    with pytest.raises(NoChangeError, match="nothing was touched") as refused:
        sort_out(chosen, of, named=True)
    assert says in str(refused.value)
    possible, lacking = sort_out(choose(None), of, named=False)
    assert name not in {one.name for one in possible}
    assert says in lacking[name]


@pytest.mark.parametrize(("before", "after"), [("60m", "61m"), ("1", "1001m"), ("0.5", "501m")])
def test_a_little_more_processor_time(before: str, after: str) -> None:
    assert raise_cpu(before) == after


def test_there_are_records_for_as_long_as_changes_usually_take() -> None:
    few, many = subject_of(7, 2), subject_of(7, 29)
    assert few.portion == many.portion == PORTION_ROWS
    assert many.numbers.sent > 29 * 30 * PORTION_ROWS
    assert few.numbers.sent < many.numbers.sent / 5
