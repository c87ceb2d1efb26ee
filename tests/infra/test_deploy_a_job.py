"""What the how-to configures for each job is what the job's program reads, and what is made for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from effectively_once.operate.create.needs import needs_of, undeclared
from effectively_once.pipeline.job import import_pipeline
from effectively_once.pipeline.settings import load as load_pipeline
from effectively_once_jobs.fraud.roles import ROLES
from effectively_once_jobs.fraud.settings import load as load_fraud
from effectively_once_jobs.system_usage.settings import load as load_usage
from effectively_once_jobs.two_ways.settings import load as load_ways
from infra.components.streaming_pipeline import values
from infra.toolchain.prepare import CHECKOUT
from infra.values.streaming_pipeline import StreamingPipelineValues
from tests.infra.platform import settings

HOW_TO = CHECKOUT / "docs" / "how-to" / "deploy-a-job.md"
SET = re.compile(r"^pulumi config set --path pipelines\.(\S+) (\S+)$", re.MULTILINE)
SECOND_SETTINGS = ("usage.module", "usage.job_settings.semantics")
BATCH_RUN = "effectively_once_jobs.reconcile.deployed"
"""It takes a stream's place for a while."""
READ_BY: dict[str, Callable[[Path], Any]] = {
    "usage": load_usage,
    "fraud": load_fraud,
    "cards": load_pipeline,
    "ways": load_ways,
    "ways_0": load_ways,
}


def configured(*left_out: str) -> dict[str, StreamingPipelineValues]:
    """All that the how-to sets, as the chart gets it, by pipeline."""
    config: dict[str, Any] = {}
    for path, value in SET.findall(HOW_TO.read_text()):
        if path in left_out or value == BATCH_RUN:
            continue
        *folders, name = path.split(".")
        at = config
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)
    wanted = settings(pipelines=config)
    return {name: values(wanted, one) for name, one in wanted.pipelines.items()}


def read_by(name: str, given: StreamingPipelineValues, folder: Path) -> tuple[Any, Path]:
    """What the program reads from the file that the chart makes."""
    path = folder / f"{name}.json"
    whole = {**given.settings.model_dump(mode="json", exclude_unset=True), **given.job_settings}
    path.write_text(json.dumps(whole))
    return READ_BY[name](path), path


def test_the_how_to_tells_of_every_job_and_keeps_what_is_there() -> None:
    assert configured().keys() == {*READ_BY, "user_counts"}


@pytest.mark.parametrize("name", READ_BY)
def test_the_program_reads_what_is_configured(name: str, tmp_path: Path) -> None:
    given = configured()[name]
    read_by(name, given, tmp_path)
    job = given.settings.job
    assert undeclared(job) or import_pipeline(job)
    assert given.module in {None, job}


def test_a_program_that_is_no_declaration_is_run_as_one(tmp_path: Path) -> None:
    """Otherwise the library's driver would look for a declaration that is not there."""
    for name, given in configured(*SECOND_SETTINGS).items():
        assert (given.module == given.settings.job) is undeclared(given.settings.job), name
    assert configured()["usage"].module is not None, "the other semantics are no declarations"


def test_what_each_needs_can_be_made(tmp_path: Path) -> None:
    """Tables want a database, and topics that stand between processes are as wide as those read them."""
    for name, given in configured().items():
        if name not in READ_BY:
            continue
        read, path = read_by(name, given, tmp_path)
        found = needs_of(given.settings.job, path)
        assert not found.schema or read.database, name
        assert all(one.startswith(f"{read.pipeline}.") for one in found.topics), name
    ways = configured()["ways_0"]
    assert ways.source.partitions == ways.settings.shards


def test_fraud_detection_has_an_executor_for_each_role_and_its_presenter() -> None:
    given = configured()["fraud"]
    assert given.executors.count * given.executors.cores >= len(ROLES)
    assert given.service is not None
    assert given.service.module == "effectively_once_jobs.fraud.presenter"


def test_both_ways_may_be_deployed_at_once(tmp_path: Path) -> None:
    query, operator = (read_by(name, configured()[name], tmp_path)[0] for name in ("ways", "ways_0"))
    assert (query.way, operator.way, operator.operator) == ("snapshots", "dedup", 0)
    assert query.pipeline != operator.pipeline
    assert operator.between == [f"{operator.pipeline}.1"]
