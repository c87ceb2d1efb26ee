"""What is told of a declaration: every name as it is on its server, without asking one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from effectively_once import Count, Max, Pipeline, RecordedStep, ToFiles, ToIceberg, ToKafka, ToTable, Windowed
from effectively_once.__main__ import main
from effectively_once.epoch.messages import dead_letters, messages
from effectively_once.errors import SettingsError
from effectively_once.ledger.layout import Layout
from effectively_once.operate.create.topics import topics_of
from effectively_once.operate.inspect.describe import lines
from effectively_once.operate.inspect.description import Description
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.stateful import Stateful
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.new_pipeline import new_pipeline
from tests.settings import REQUIRED, pipeline_settings

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "your-own-pipeline.md"


def transform(frame: Any) -> Any:
    return frame


def quoted(rows: pa.Table) -> pa.Table:
    return rows


ALL = Pipeline(
    transform,
    pa.schema([("user", pa.string()), ("raw", pa.binary())]),
    recorded=RecordedStep("quoted", quoted, pa.schema([pa.field("quote", pa.int64(), nullable=False)])),
    rows=(
        ToKafka("accepted", key="user"),
        ToKafka("brief", columns=("user", "offset")),
        ToKafka("as_is", value="raw"),
        ToTable("orders", key=("id",), columns=("id", "quote", "raw")),
        ToFiles("archive"),
        ToIceberg("lake", columns=("user",)),
    ),
    windows=(Windowed("user", {"n": Count(), "most": Max("quote")}, ToTable("most"), totals=ToFiles("totals")),),
    ahead_ms=5000,
    filtered=("bot", "probe"),
)
JOB = Job(ALL, pipeline_settings(database="postgresql://localhost:2/results", shards=3, window_ms=100, lateness_ms=0))
PLAIN = Job(Pipeline(transform, pa.schema([]), ids="coordinates", rows=(ToKafka("accepted"),)), pipeline_settings())

RESULTS = pa.schema([("user", pa.string()), ("n", pa.int64())])
STATEFUL = Job(
    Pipeline(
        transform,
        pa.schema([("user", pa.string())]),
        rows=(ToKafka("accepted"),),
        stateful=Stateful(transform, RESULTS, by="user", to=ToKafka("sessions", key="user")),
    ),
    pipeline_settings(),
)


def test_the_text_tells_all_that_is_declared() -> None:
    """The page, below, has the lines that each pipeline has."""
    told = list(lines(Description.of(JOB)))
    assert [line for line in told if not line.startswith(" ")][3:] == [
        "required    id, event_time_ms, user: a record without one of them is a dead letter",
        "ids         attached: of records with one id the first is accepted, while its window is open",
        "windows     100 ms each, and 0 ms more for what is late",
        "ahead       a time 5,000 ms after the record's own in Kafka is a dead letter",
        "filtered    bot, probe: a record of one of them is counted, and published nowhere",
        "recorded    quoted: quote int64",
        "sink        accepted: rows to topic clicks.accepted, key user",
        "sink        brief: rows to topic clicks.brief",
        "sink        as_is: rows to topic clicks.as_is",
        "sink        orders: rows to table clicks.orders, key id",
        "sink        archive: rows to files s3://data/clicks/archive/",
        "sink        lake: rows to lake table clicks.lake",
        "sink        dead_letter: dead letters to topic clicks.dead_letter",
        "sink        most: windows to table clicks.most",
        "sink        totals: totals to files s3://data/clicks/totals/",
        "state       ids: of accepted records, until the window of their time is closed",
        "state       most: n = count(), most = max(quote) by user and window",
        "shards      3",
        "semantics   exactly_once",
        "bucket      http://localhost:1/data/clicks",
        "database    postgresql://localhost:2/results",
        f"digest      {JOB.digest} of topic, shards, window_ms, lateness_ms, ids, windows",
    ]
    assert {"            each message is the column raw", "            id text, quote bigint, raw bytea"} <= {*told}


def test_windows_of_another_length_say_so() -> None:
    per = replace(JOB.pipeline.windows[0], to=ToTable("per"), totals=None)
    longer = replace(per, to=ToTable("longer"), length_ms=3_600_000)
    sliding = replace(per, to=ToTable("sliding"), length_ms=3_600_000, slide_ms=300_000)
    job = Job(replace(JOB.pipeline, windows=(per, longer, sliding)), JOB.settings)
    assert [line.partition(" by ")[2] for line in lines(Description.of(job)) if " by user" in line] == [
        "user and window",
        "user and window of 3,600,000 ms",
        "user and window of 3,600,000 ms, one each 300,000 ms",
    ]


def test_a_declaration_without_ids_and_windows_has_neither_state_nor_times() -> None:
    told = list(lines(Description.of(PLAIN)))
    assert [line for line in told if line.startswith("ids")] == [
        "ids         coordinates: a record is its topic, partition and offset; none is dropped as a copy"
    ]
    assert not [line for line in told if line.split()[0] in ("state", "windows", "required", "recorded", "database")]


def test_a_query_of_sparks_own_operators_has_its_results_and_its_state() -> None:
    told = list(lines(Description.of(STATEFUL)))
    at = told.index("sink        sessions: results to topic clicks.sessions, key user")
    assert told[at + 1] == "            user string, n int64, epoch int64"
    assert "state       sessions: of Spark's operators, in Spark's checkpoint" in told


@pytest.mark.parametrize("job", [JOB, PLAIN, STATEFUL], ids=["all", "plain", "stateful"])
def test_names_are_those_that_are_made_and_written(job: Job) -> None:
    sinks = {sink.name: sink for sink in Description.of(job).sinks}
    assert set(sinks) == {DEAD_LETTER, *job.pipeline.sinks}
    made = {topic.name for topic in topics_of(job, None)}
    topics = [sink.where for sink in sinks.values() if sink.kind == "topic"]
    tried = f"{job.settings.pipeline}.start-probe"
    assert made == {*topics, *(f"{name}.progress" for name in topics), tried}
    for name in job.pipeline.file_sinks:
        place = sinks[name].where.removeprefix(f"s3://{job.settings.s3_bucket}/")
        assert Layout(job.settings.pipeline).manifest(name, 0).startswith(place)


@pytest.mark.parametrize("name", ["accepted", "brief"])
def test_fields_of_a_message_are_those_that_are_sent(name: str) -> None:
    to, whole = ALL.sinks[name]
    assert isinstance(to, ToKafka)
    [(_, value)] = messages(to, pa.table([pa.nulls(1, column.type) for column in whole], schema=whole), 7)
    (sink,) = [sink for sink in Description.of(JOB).sinks if sink.name == name]
    assert [*orjson.loads(value)] == [*sink.columns]


def test_fields_of_a_dead_letter_are_those_that_are_sent() -> None:
    names = ("topic", "partition", "offset", "reason", "value", "id")
    [(_, value)] = dead_letters(pa.table({name: [b"" if name == "value" else "x"] for name in names}), 7)
    (sink,) = [sink for sink in Description.of(JOB).sinks if sink.name == DEAD_LETTER]
    assert [*orjson.loads(value)] == [*sink.columns]


@pytest.fixture
def clicks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Settings of a pipeline as `make new-pipeline` makes it; its package can be imported in this test alone."""
    new_pipeline("clicks", tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "src")
    yield tmp_path / "settings.json"
    for name in ("clicks", "clicks.transform"):
        sys.modules.pop(name, None)


def test_the_page_shows_what_is_printed_of_a_new_pipeline(clicks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(clicks)]) == 0
    (shown,) = re.findall(r"```\n(pipeline    clicks.*?)```", PAGE.read_text(), re.DOTALL)
    assert capsys.readouterr().out == shown


def test_as_json_it_is_one_object_of_the_same_facts(clicks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "--json", str(clicks)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pipeline"], told["topic"], told["shards"]) == ("clicks", "clicks_events", 2)
    assert [(sink["name"], sink["kind"], sink["where"]) for sink in told["sinks"]] == [
        ("accepted", "topic", "clicks.accepted"),
        ("dead_letter", "topic", "clicks.dead_letter"),
        ("per_minute", "topic", "clicks.per_minute"),
    ]
    assert told["bound"]["windows"]["per_minute"]["by"] == "key"


def test_a_job_that_cannot_be_imported_is_a_named_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({**REQUIRED, "job": "job_nowhere"}))
    assert main(["describe", str(path)]) == SettingsError.exit_code
    told = capsys.readouterr()
    assert told.err.startswith("SettingsError: the job cannot be imported: ModuleNotFoundError: No module named 'job_n")
    assert told.out == ""


def test_neither_servers_nor_credentials_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at these addresses: `inspect` of the same file is an error."""
    for name in (ACCESS_KEY, SECRET_KEY):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(REQUIRED))
    assert main(["describe", str(path)]) == 0
    assert main(["inspect", str(path)]) != 0
