"""The campaign on a pipeline that is not one of ours: a skeleton passes, one that is broken on purpose does not."""

from __future__ import annotations

import os
import random
from pathlib import Path

import orjson
import pytest

from infra.console import Console
from infra.embedded.job import RunError
from infra.new_pipeline import new_pipeline
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import Toolchain
from tests.harness.definition.asked import Definition
from tests.harness.mixture import parse_faults
from tests.harness.play.embedded_run import EmbeddedRun
from tests.harness.portions import rows_of
from tests.harness.results import Results, Verdict

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SEED, ROWS, COPY_OF_EVERY, BEHIND_MS = 11, 1_500, 10, 5_000
BEGAN_MS = 1_700_000_000_000
READ = "json_records(frame, _FIELDS)"
DRAWN = 'f.udf(lambda _: __import__("random").randrange(1000), "long")("amount")'
"""In Python: what is in a plan is refused at the start."""
ROWS_GO_TO = "rows=("
LAKE_TOO = 'rows=(ToIceberg("visits"), '
BY_CHANCE = f'{READ}.withColumn("amount", {DRAWN})'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pipeline as `make new-pipeline` makes it."""
    new_pipeline("clicks", tmp_path / "clicks")
    return tmp_path / "clicks"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Records of half an hour: some are copies, some are out of order, two are broken."""
    rng = random.Random(SEED)
    lines = []
    for n in range(ROWS):
        original = n - 3 if n % COPY_OF_EVERY == COPY_OF_EVERY - 1 else n
        draw = random.Random(original)
        row = {
            "id": f"e{original}",
            "event_time_ms": BEGAN_MS + 1_200 * original - draw.randrange(BEHIND_MS),
            "key": f"k{draw.randrange(20)}",
            "amount": draw.randrange(100),
        }
        lines.append(orjson.dumps(row))
    lines[rng.randrange(ROWS)] = b"{broken"
    lines[rng.randrange(ROWS)] = b'{"id": "no more than that"}'
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def struck(folder: Path, events: Path, toolchain: Toolchain, faults: str) -> Results:
    """Strike the pipeline of a folder."""
    strikes = parse_faults(faults, SEED)
    own = Definition.at(folder, None, Cache(cache_root()), toolchain)
    subject = rows_of(events, "key", "event_time_ms", strikes, own.settings)
    database = find_postgres() if own.has_tables else None
    run = EmbeddedRun(folder.parent, toolchain, strikes, SEED, subject, Console(), own, database=database)
    before = dict(os.environ)
    results = run.run(faults)
    # Logins of its servers: the next test has others.
    assert dict(os.environ) == before
    return results


def test_a_skeleton_of_somebody_else_passes(folder: Path, events: Path, toolchain: Toolchain) -> None:
    results = struck(folder, events, toolchain, "executor-kill,driver-kill")
    assert results.verdict is Verdict.PASS, results.reasons
    assert set(results.outputs) == {"accepted", "per_minute", "dead_letter"}
    assert all(output.exact and output.observed for output in results.outputs.values())
    # One that had no effect is struck again.
    assert sum(fault.hit for fault in results.faults) == 2
    assert results.epochs.replayed
    (page,) = (folder.parent / "runs").glob("*-11/report.html")
    assert "clicks" in page.read_text()


def test_a_lake_table_is_struck_and_judged_as_every_other_sink(
    folder: Path, events: Path, toolchain: Toolchain
) -> None:
    if find_postgres() is None:
        pytest.skip(HOW)
    job = folder / "src" / "clicks" / "__init__.py"
    text = job.read_text()
    assert text.count(ROWS_GO_TO) == 1
    job.write_text(text.replace(ROWS_GO_TO, LAKE_TOO).replace("import Count,", "import Count, ToIceberg,"))
    results = struck(folder, events, toolchain, "database-kill,driver-kill")
    assert results.verdict is Verdict.PASS, results.reasons
    assert results.outputs["visits"].exact and results.outputs["visits"].observed


def test_a_transform_that_draws_a_value_by_chance_is_found_out(
    folder: Path, events: Path, toolchain: Toolchain
) -> None:
    """Which of the two depends on whether an epoch is repeated: its sinks refuse other rows, or the reference does."""
    transform = folder / "src" / "clicks" / "transform.py"
    text = transform.read_text()
    assert text.count(READ) == 1
    text = text.replace("import DataFrame\n", "import DataFrame\nfrom pyspark.sql import functions as f\n")
    transform.write_text(text.replace(READ, BY_CHANCE))
    results = struck(folder, events, toolchain, "executor-kill")
    assert results.verdict in (Verdict.FAIL, Verdict.UNKNOWN)
    told = " ".join([*results.reasons, *(line for one in results.oracles for line in one.evidence)])
    assert "amount is" in told or "SinkError" in told, told


def test_a_module_that_declares_nothing_is_refused_before_anything_starts(folder: Path, toolchain: Toolchain) -> None:
    with pytest.raises(RunError, match=r"clicks: .*no other that is a Pipeline"):
        Definition.at(folder, "clicks:other", Cache(cache_root()), toolchain)
