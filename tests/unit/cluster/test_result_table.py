"""The table of a pipeline on a cluster: its job's file, its pods' credentials, and that nothing of it is left."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from effectively_once.errors import SettingsError
from effectively_once.pipeline.settings import PipelineSettings
from infra.cluster.platform import Namespaces, Store
from infra.cluster.platform import Platform as Told
from tests.harness import with_table
from tests.harness.adapters.cluster import KINDS, Cluster
from tests.harness.adapters.pod_database import NoDatabaseError, PodDatabase
from tests.harness.adapters.pod_login import secret_of
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.play.result_table import ResultTable
from tests.harness.sinks import ACCEPTED_ROWS
from tests.unit.cluster.fake_platform import FakePlatform

INSIDE = "postgresql://postgres.platform.svc:5432/results"
CREDENTIALS = {"PGUSER": "owner", "PGPASSWORD": "secret word"}
SECRET = {
    "data": {"username": base64.b64encode(b"owner").decode(), "password": base64.b64encode(b"secret word").decode()}
}
ROOT = Path(__file__).parents[3]


class FakePipelines(FakePlatform):
    """The namespace of pipelines."""

    namespace = "pipelines"

    def apply(self, objects: list[dict[str, Any]]) -> None:
        self.done += [("apply", one["kind"], one["metadata"]["name"]) for one in objects]


class World:
    """A database that answers or not, and what was done for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, answers: bool = True, authority: str | None = None) -> None:
        self.pipelines = FakePipelines()
        self.answers = answers
        server = ServerPods.of(cast("Cluster", FakePlatform()), "result store")
        self.database = PodDatabase(server, INSIDE, CREDENTIALS, authority)
        for name in (*CREDENTIALS, "PGSSLMODE", "PGSSLROOTCERT"):
            monkeypatch.setenv(name, "")
        monkeypatch.setattr("tests.harness.adapters.pod_database.psycopg.connect", self.connect)
        self.asked: list[dict[str, Any]] = []

    def connect(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if not self.answers:
            raise psycopg.OperationalError("no answer")
        return type("C", (), {"close": lambda _: None})()


def test_the_file_of_the_job_runs_without_this_repository(tmp_path: Path) -> None:
    """In a pod there is the wheel, and nothing else of ours."""
    (tmp_path / "with_table.py").write_text(Path(with_table.__file__).read_text())
    says = (
        "from effectively_once.pipeline.job import import_pipeline; one = import_pipeline('with_table');"
        "print(*one.tables, one.defaults == import_pipeline('effectively_once_jobs.user_counts').defaults)"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "pipelines" / "src")])
    done = subprocess.run(
        [sys.executable, "-c", says],
        env={"PYTHONPATH": path, "PATH": os.defpath},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{ACCEPTED_ROWS} True\n", done.stderr


def test_settings_and_values_name_job_address_and_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ResultTable(World(monkeypatch).database)
    deployed = {
        "kafka_bootstrap": "k:9092",
        "s3_endpoint": "http://m:9000",
        "pipeline": "uc_7",
        "topic": "events_uc_7",
        "job": "effectively_once_jobs.user_counts",
        "s3_bucket": "bucket",
    }
    settings = PipelineSettings.model_validate({**deployed, **table.settings})
    assert (settings.job, settings.database) == ("with_table", INSIDE)
    values = table.values({"name": "uc-7", "image": "i", "extraFiles": {"other.py": ""}}, "r-7")
    assert {name: values[name] for name in ("name", "image", "databaseSecret")} == {
        "name": "uc-7",
        "image": "i",
        "databaseSecret": "r-7-result-store",
    }
    assert sorted(values["extraFiles"]) == ["other.py", "with_table.py"]
    assert "secret word" not in repr(values) + repr(table)


def test_tables_of_a_pipeline_of_ones_own_bring_no_job_along(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ResultTable(World(monkeypatch).database, defined=True)
    assert table.settings == {"database": INSIDE}
    values = table.values({"name": "uc-7", "extraFiles": {"clicks.py": ""}}, "r-7")
    assert values == {"name": "uc-7", "databaseSecret": "r-7-result-store", "extraFiles": {"clicks.py": ""}}


def test_a_run_has_a_secret_of_its_own_as_long_as_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    with ResultTable(world.database).lent(cast("Cluster", world.pipelines), "r-7"):
        assert world.pipelines.done == [("apply", "Secret", "r-7-result-store")]
        assert {name: os.environ[name] for name in CREDENTIALS} == CREDENTIALS
        assert {name: world.asked[0][name] for name in ("user", "dbname")} == {"user": "owner", "dbname": "results"}
        assert world.database.url == f"postgresql://127.0.0.1:{world.asked[0]['port']}/results"
    assert ("v1", "Secret") in KINDS, "it is deleted with everything of the run"


def test_a_server_with_a_certificate_is_believed_by_its_authority_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, authority="an authority")
    table = ResultTable(world.database)
    with table.lent(cast("Cluster", world.pipelines), "r-7"):
        asked = world.asked[0]
        assert (asked["sslmode"], Path(asked["sslrootcert"]).read_text()) == ("verify-ca", "an authority")
        assert (os.environ["PGSSLMODE"], os.environ["PGSSLROOTCERT"]) == ("verify-ca", asked["sslrootcert"])
    assert not Path(asked["sslrootcert"]).exists()
    values = table.values({"name": "uc-7"}, "r-7")
    assert values["databaseClient"] == {"mode": "verify-full", "certificates": values["databaseSecret"]}
    with ResultTable(World(monkeypatch).database).lent(cast("Cluster", world.pipelines), "r-7"):
        assert "databaseClient" not in ResultTable(World(monkeypatch).database).values({"name": "uc-7"}, "r-7")


def test_the_secret_holds_what_the_environment_of_pods_is_made_of() -> None:
    one = secret_of("r-7-result-store", "r-7", CREDENTIALS)
    assert {name: base64.b64decode(value).decode() for name, value in one["data"].items()} == CREDENTIALS
    assert one["metadata"]["labels"] == {"effectively-once/run": "r-7"}


def assert_no_way_to(world: World) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", world.database._tunnel.port))


def test_a_database_that_does_not_answer_is_said_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, answers=False)
    lent = ResultTable(world.database).lent(cast("Cluster", world.pipelines), "r-7")
    with pytest.raises(NoDatabaseError, match="does not answer: no answer"), lent:
        pass
    assert_no_way_to(world)


@pytest.mark.parametrize("fails", [False, True])
def test_the_table_is_made_before_the_pipeline_and_dropped_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    world, done = World(monkeypatch), list[tuple[Any, ...]]()

    class Made:
        def __init__(self, database: Any, pipeline: str) -> None:
            assert (database, pipeline) == (world.database, "uc_7")

        def make(self, sink: str, shape: Any, shards: int) -> None:
            done.append(("make", sink, shards))

        def drop(self) -> None:
            socket.create_connection(("127.0.0.1", world.database._tunnel.port)).close()
            done.append(("drop",))
            if fails:
                raise psycopg.OperationalError("away")

    monkeypatch.setattr("tests.harness.play.result_table.Tables", Made)
    table = ResultTable(world.database)

    def played() -> None:
        with table.lent(cast("Cluster", world.pipelines), "r-7"):
            outputs = table.outputs("uc_7", 2)
            assert not done
            outputs.make(tmp_path)
            assert done == [("make", ACCEPTED_ROWS, 2)]

    if fails:
        with pytest.raises(psycopg.OperationalError):
            played()
    else:
        played()
    assert done[1:] == [("drop",)], "while there still is a way to it"
    assert_no_way_to(world)


def platform(**store: Any) -> Told:
    """A stack's output."""
    names = Namespaces(platform="platform", pipelines="pipelines")
    none = {"kafka": {"bootstrap": "k"}, "object_store": {"endpoint": "m"}}
    return Told.model_validate({"profile": "chaos", "namespaces": names, **none, "result_store": Store(**store)})


class FakeReader:
    """The API, of one Secret."""

    def __init__(self, secret: dict[str, Any]) -> None:
        self.secret, self.asked = secret, list[str]()

    def get(self, path: str, **_: str) -> dict[str, Any]:
        self.asked.append(path)
        return self.secret


def find_database(held: dict[str, Any], **store: Any) -> tuple[PodDatabase, FakeReader]:
    reader = FakeReader(held)
    server = ServerPods.of(cast("Cluster", type("C", (), {"reader": reader})()), "result store")
    return PodDatabase.of(server, platform(**store)), reader


def test_address_and_credentials_are_those_of_the_stack() -> None:
    one, reader = find_database(SECRET, endpoint=INSIDE, secret="s", secret_namespace="n")
    assert (one.inside, one.credentials) == (INSIDE, CREDENTIALS)
    assert reader.asked == ["/api/v1/namespaces/n/secrets/s"]
    assert find_database(SECRET, endpoint=INSIDE, secret="s")[1].asked == ["/api/v1/namespaces/platform/secrets/s"]


def test_a_secret_without_what_is_needed_is_refused_without_its_values() -> None:
    certified = {"endpoint": INSIDE, "secret": "s", "certificates": "tls"}
    with pytest.raises(NoDatabaseError, match=r"^Secret platform/tls lacks ca.crt$"):
        find_database(SECRET, **certified)
    with_authority = {"data": {**SECRET["data"], "ca.crt": base64.b64encode(b"an authority").decode()}}
    assert find_database(with_authority, **certified)[0].authority == "an authority"
    with pytest.raises(NoDatabaseError, match=r"^Secret platform/s lacks password$"):
        find_database({"data": {"username": "b3duZXI="}}, endpoint=INSIDE, secret="s")
    with pytest.raises(NoDatabaseError, match="no result store with a Secret"):
        find_database(SECRET, endpoint=INSIDE)
    with pytest.raises(SettingsError):
        find_database(SECRET, endpoint="postgres.platform.svc:5432", secret="s")
