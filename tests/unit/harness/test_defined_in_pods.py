"""A pipeline of somebody else's on a cluster: package and settings in its pods, plan, manifest and tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from effectively_once.pipeline.settings import PipelineSettings
from infra.console import Console
from infra.embedded.job import Job, RunError
from infra.embedded.stack import Endpoints
from infra.new_pipeline import new_pipeline
from infra.toolchain.prepare import CHECKOUT, Toolchain
from infra.toolchain.wheel import Wheel
from tests.harness.adapters.nodes import Nodes
from tests.harness.campaigns import chaos
from tests.harness.campaigns import cluster as campaign
from tests.harness.campaigns.cluster import programme_of, strikes_of, table_of
from tests.harness.checkers.declared_run import DECLARATION
from tests.harness.conditions import USUAL
from tests.harness.definition.asked import Definition
from tests.harness.definition.in_pods import MOST_BYTES, files_of, values_of
from tests.harness.evidence import Manifest
from tests.harness.faults.cluster_platform import Platform
from tests.harness.play.cluster_acts import ClusterActs
from tests.harness.play.cluster_run import ClusterRun, Programme
from tests.harness.portions import rows_of
from tests.harness.report.page import _command
from tests.harness.results import OWN_PIPELINE
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.cluster import ClusterStack
from tests.harness.stack.deployed import BrokerTools, Found, NotDeployedError, Target
from tests.harness.subject import Subject

NONE: Any = None
NAME = "20261122-050000-7"
SINK = {"name": "clicks", "kind": "kafka", "of": "rows", "columns": ["id"], "totals": False}
SAID: dict[str, Any] = {
    "declaration": {"attached": True, "timed": True, "sinks": [SINK], "aggregates": {}, "left_out": {}},
    "schemas": {"clicks": {"kind": "kafka", "fields": {"id": "text"}}},
    "defaults": {"window_ms": 5_000, "lateness_ms": 1_000},
    "code": {"clicks": "ab" * 32},
    "rows": ["clicks"],
    "kafka": ["clicks", "raw", "dead_letter"],
    "tables": [],
    "lake": [],
}
DEPLOYED = {
    "image": "i:1",
    "module": "some.program",
    "wheelDigest": "cd" * 32,
    "settings": {
        "pipeline": "user_counts",
        "topic": "events",
        "job": "effectively_once_jobs.user_counts",
        "idle_ms": 60_000,
        "kafka_bootstrap": "k:9092",
        "s3_endpoint": "http://m:9000",
        "s3_bucket": "bucket",
        "window_ms": 60_000,
    },
}


def definition(tmp_path: Path, **said: Any) -> Definition:
    """A pipeline of one module, `clicks`."""
    package = tmp_path / "installed" / "clicks"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("pipeline = 1\n")
    library = Wheel(Path("library.whl"), "ef" * 32, CHECKOUT / "pipelines" / "src")
    job = Job(
        {"pipeline": "clicks", "job": "clicks", "topic": "clicks_events", "shards": 3},
        Wheel(Path("clicks.whl"), "01" * 32, tmp_path / "installed"),
    )
    return Definition(job, cast("Toolchain", SimpleNamespace(wheel=library)), {**SAID, **said})


def subject(tmp_path: Path) -> Subject:
    """A file of its records."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(orjson.dumps({"key": f"k{n % 7}", "at": n}) + b"\n" for n in range(900)))
    return rows_of(path, "key", "at", strikes_of("driver-kill", 1, 0, ()), SAID["defaults"])


def programme(tmp_path: Path, **said: Any) -> Programme:
    """What is done to it."""
    return programme_of(
        7,
        subject(tmp_path),
        strikes_of("driver-kill", 7, 0, ()),
        Platform({}, None),
        zombie_s=1.0,
        controls=True,
        definition=definition(tmp_path, **said),
        deployed=DEPLOYED,
    )


def test_a_package_is_files_that_the_chart_puts_back_into_folders(tmp_path: Path) -> None:
    new_pipeline("clicks", tmp_path / "clicks")
    installed = tmp_path / "clicks" / "src"
    (installed / "clicks-0.1.0.dist-info").mkdir()
    (installed / "clicks-0.1.0.dist-info" / "METADATA").write_text("Name: clicks\n")
    (installed / "clicks" / "__pycache__").mkdir()
    (installed / "clicks" / "__pycache__" / "transform.pyc").write_bytes(b"\xff")
    files = files_of("clicks", installed)
    assert set(files) >= {"clicks.__init__.py", "clicks.transform.py"}
    assert not [name for name in files if "dist-info" in name or "pyc" in name]
    for name, text in files.items():
        # As `extra-volume` of the chart has it.
        stem, _, suffix = name.rpartition(".")
        assert (installed / f"{stem.replace('.', '/')}.{suffix}").read_text() == text


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("table.v2.csv", b"a", "cannot be brought into a pod under its name"),
        ("LICENSE", b"a", "cannot be brought into a pod under its name"),
        ("a b.py", b"a", "cannot be brought into a pod under its name"),
        ("model.bin", b"\xff\xfe", "is no text"),
        ("large.csv", b"a" * (MOST_BYTES + 1), "more than a ConfigMap holds"),
    ],
)
def test_a_file_that_cannot_be_brought_along_is_refused_with_the_way_out(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / name).write_bytes(content)
    with pytest.raises(RunError, match=rf"clicks: .*{why}.*deploy clicks with it"):
        files_of("clicks", tmp_path)


def test_a_pod_runs_its_settings_and_code_with_addresses_of_the_deployed_one(tmp_path: Path) -> None:
    sent = subject(tmp_path)
    values = values_of(definition(tmp_path), sent, DEPLOYED)
    assert (values["module"], values["extraFiles"]) == (None, {"clicks.__init__.py": "pipeline = 1\n"})
    assert values["wheelDigest"] not in (None, DEPLOYED["wheelDigest"])
    run = {"pipeline": "uc_7", "topic": "events_uc_7"}
    settings = PipelineSettings.model_validate({**DEPLOYED["settings"], **run, **values["settings"]})  # type: ignore[dict-item]
    assert (settings.pipeline, settings.topic, settings.job) == ("uc_7", "events_uc_7", "clicks")
    assert (settings.kafka_bootstrap, settings.s3_bucket) == ("k:9092", "bucket")
    assert (settings.shards, settings.window_ms, settings.idle_ms) == (3, 5_000, None)
    assert settings.epoch_rows_max == sent.epoch_rows_max


def test_what_is_done_to_it_is_planned_at_its_own_steps_and_without_controls(tmp_path: Path) -> None:
    made = programme(tmp_path)
    assert made.controls == ()
    assert {(one.step, one.sink) for one in made.planned} <= {
        ("transaction_open", "clicks"),
        ("committed", "clicks"),
        ("ids_decided", None),
        ("declared", None),
    }
    assert made.changes["settings"]["job"] == "clicks"
    assert made.changes["sparkConf"] == USUAL.spark


def run(tmp_path: Path, made: Programme) -> ClusterRun:
    """A run that is not played."""
    return ClusterRun(tmp_path, NONE, NONE, made, 7, Console())


def test_its_manifest_names_its_sinks_its_code_and_where_it_was_struck(tmp_path: Path) -> None:
    document = run(tmp_path, programme(tmp_path))._manifest(NAME)
    told = Manifest.model_validate(document)
    assert (told.settings.campaign, told.settings.sinks, told.settings.shards) == (OWN_PIPELINE, ("clicks",), 3)
    assert (told.settings.pipeline, told.code, told.controls) == ("uc_202611220500007", SAID["code"], ())
    assert told.claim.startswith("Every record of events.jsonl is in the outputs of clicks")
    assert _command(document["settings"]) == "make chaos ON=cluster"
    assert _command({**document["settings"], "on": None}) == "make chaos"


def acts(tmp_path: Path) -> ClusterActs:
    """Where it would be played."""
    endpoints = Endpoints("k:1", "http://m:1", "a", "b", "bucket")
    directory = RunDirectory(tmp_path / NAME)
    directory.observed.mkdir(parents=True)
    stack = ClusterStack(directory, endpoints, NONE, NONE, NONE, BrokerTools(tmp_path, tmp_path), NONE)
    return ClusterActs(stack, 7, NONE)


class FakeTable:
    """A result store; remembers what is done."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def tables(self, pipeline: str) -> str:
        return f"tables of {pipeline}"

    def drop_later(self, tables: Any) -> None:
        self.done.append(f"drop {tables} later")


SETTINGS = PipelineSettings.model_validate({**DEPLOYED["settings"], "pipeline": "uc_7", "topic": "e"})  # type: ignore[dict-item]


@pytest.mark.parametrize("tables", [{}, {"tables": ["clicks"]}, {"lake": ["clicks"]}])
def test_its_tables_are_made_by_the_charts_job_and_only_where_it_has_some(tmp_path: Path, tables: Any) -> None:
    done: list[str] = []
    own, played = definition(tmp_path, **tables), acts(tmp_path)
    directory = played.stack.directory
    table: Any = FakeTable(done) if tables else None
    outputs = played._outputs(directory, SETTINGS, table, own, lambda: done.append("create"))
    assert done == []
    outputs.make(tmp_path)
    assert done == (["create", "drop tables of uc_7 later"] if tables else [])
    assert str(outputs.tables) == ("tables of uc_7" if tables else "None")
    assert (outputs.lake is not None) == ("lake" in tables)
    assert (outputs.declaration.topics, outputs.kafka) == (("clicks",), SAID["kafka"])
    assert outputs.transform is not None
    written = orjson.loads((directory.observed / DECLARATION).read_bytes())
    assert (written["pipeline"], written["window_ms"]) == ("uc_7", 60_000)


def test_tables_without_a_result_store_of_ours_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="clicks has tables, and no PostgreSQL of this cluster is a pod of ours"):
        table_of(NONE, Platform({}, None), NONE, definition(tmp_path, tables=["clicks"]))


def test_image_and_resources_are_those_of_the_pipeline_of_its_name_or_else_of_user_counts() -> None:
    def ask(*names: str) -> str:
        one = {name: {"image": name} for name in names}
        return orjson.dumps({"platform": {"pipelines": one, "namespaces": {"pipelines": "p"}}}).decode()

    assert Target.of(ask("user_counts", "my-clicks"), "my_clicks").values == {"image": "my-clicks"}
    assert Target.of(ask("user-counts", "other"), "my_clicks").values == {"image": "user-counts"}
    with pytest.raises(NotDeployedError, match="there is: other"):
        Target.of(ask("other"), "my_clicks")


def test_the_command_plays_it_with_the_clusters_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster that is looked at and not touched."""
    asked: list[str] = []
    played: list[Programme] = []

    class Looked:
        deployed = SimpleNamespace(kubeconfig=None, context=None, platform=None)

        def target(self, name: str) -> Target:
            asked.append(name)
            return Target("pipelines", DEPLOYED)

    def of(found: Any, target: Any, made: Programme, *_: Any) -> Any:
        played.append(made)
        raise RunError("not played")

    monkeypatch.setattr(Found, "here", lambda _: Looked())
    monkeypatch.setattr(campaign, "Cluster", lambda *_: SimpleNamespace(reader=None))
    monkeypatch.setattr(Nodes, "here", lambda *_: None)
    monkeypatch.setattr(Platform, "of", lambda *_: Platform({}, None))
    monkeypatch.setattr(campaign, "prepare", lambda _: None)
    monkeypatch.setattr(campaign, "definition_of", lambda *_: definition(tmp_path))
    monkeypatch.setattr(ClusterRun, "of", of)

    subject(tmp_path)
    own = ["--at", "clicks", "--input", str(tmp_path / "events.jsonl"), "--key", "key", "--time", "at"]
    assert chaos.main(["--on", "cluster", *own, "--seed", "7", "--faults", "driver-delete,executor-oom"]) == 2
    assert asked == ["clicks"]
    (made,) = played
    assert made.definition is not None
    assert made.named == {"faults": "driver-delete,executor-oom"}
    assert {one.strike.kind for one in made.planned} == {"pod_delete_now", "out_of_memory"}
    assert (made.subject.kind, made.table) == ("file", None)
