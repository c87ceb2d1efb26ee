"""How a Kafka node finds its place and formats its folder once: images/kafka/start, with a fake java."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from infra.images.catalogue import FOLDER
from tests.unit.images.shell import elsewhere, run
from tests.unit.toolchain.fake_programs import program

PROPERTIES = """process.roles={roles}
node.id=${{NODE_ID}}
log.dirs={data}
advertised.listeners=INTERNAL://${{HOSTNAME}}.kafka-nodes:9092,EXTERNAL://127.0.0.1:${{EXTERNAL_PORT}}
broker.rack=${{POD_ORDINAL}}
"""


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """The folder of a node: its script, its mounted configuration, a java that keeps what it was asked."""
    java = f"""
echo "$*" >>{tmp_path / "calls"}
case "$*" in *StorageTool*) [ -z "$FAIL" ] || exit 1; touch {tmp_path / "data"}/meta.properties ;; esac
"""
    program(tmp_path / "bin", "java", java)
    (tmp_path / "data").mkdir()
    (tmp_path / "quorum").mkdir()
    places = {
        "/etc/kafka/server.properties": tmp_path / "given",
        "/tmp/server.properties": tmp_path / "config",  # noqa: S108
        "/etc/kafka-quorum": tmp_path / "quorum",
    }
    elsewhere(FOLDER / "kafka" / "start", tmp_path, places)
    _mount(tmp_path, "broker,controller")
    return tmp_path


def _mount(folder: Path, roles: str) -> None:
    (folder / "given").write_text(PROPERTIES.format(roles=roles, data=folder / "data"))


def _start(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    env = {"HOSTNAME": "kafka-2", "KAFKA_CLUSTER_ID": "C1", **env}
    return run(folder / "start", env=env, path=folder / "bin")


def _calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []


def test_a_node_takes_its_place_from_its_host_name(kafka: Path) -> None:
    ended = _start(kafka, KAFKA_NODE_ID_OFFSET="100", KAFKA_EXTERNAL_PORT_BASE="12092")
    assert ended.returncode == 0, ended.stderr
    config = (kafka / "config").read_text().splitlines()
    assert config[1] == "node.id=102"
    assert config[3] == ("advertised.listeners=INTERNAL://kafka-2.kafka-nodes:9092,EXTERNAL://127.0.0.1:12094")
    assert config[4] == "broker.rack=2"
    assert "${" not in (kafka / "config").read_text()


def test_without_offsets_the_node_id_is_the_ordinal(kafka: Path) -> None:
    _start(kafka, HOSTNAME="effectively-once-kafka-11")
    assert "node.id=11\n" in (kafka / "config").read_text()


def test_an_empty_folder_is_formatted_and_then_the_broker_runs(kafka: Path) -> None:
    _start(kafka, KAFKA_JVM_OPTIONS="-Xmx512m -Xss1m")
    assert _calls(kafka) == [
        f"-Xmx512m -Xss1m -cp /opt/kafka/libs/* kafka.tools.StorageTool format --config {kafka / 'config'} "
        "--cluster-id C1 --standalone",
        f"-Xmx512m -Xss1m -cp /opt/kafka/libs/* kafka.Kafka {kafka / 'config'}",
    ]


def test_where_metrics_are_wanted_the_broker_has_the_agent_and_the_tool_that_formats_has_not(kafka: Path) -> None:
    """Both would listen at the port otherwise."""
    _start(kafka, KAFKA_METRICS_PORT="9404")
    formats, runs = _calls(kafka)
    assert "-javaagent" not in formats
    assert runs == (
        "-javaagent:/opt/kafka/agent/jmx_prometheus_javaagent-*.jar=9404:/etc/kafka/metrics.yaml "
        f"-cp /opt/kafka/libs/* kafka.Kafka {kafka / 'config'}"
    )


MEMBERS = "0@a:1:x,1@b:1:y,2@c:1:z"
AUTO_JOIN = "controller.quorum.auto.join.enable=true"


@pytest.mark.parametrize(
    ("roles", "there", "members", "how", "joins"),
    [
        ("broker", [], "", "--no-initial-controllers", False),
        ("broker", [], MEMBERS, "--no-initial-controllers", False),
        ("controller", [], "", "--standalone", False),
        ("controller", [], MEMBERS, f"--initial-controllers {MEMBERS}", False),
        ("broker,controller", [], MEMBERS, f"--initial-controllers {MEMBERS}", False),
        # A broker that lost its disk has no vote, and comes back.
        ("broker", ["formed"], "", "--no-initial-controllers", False),
        # A voter that is let in gets a directory id of its own; Kafka takes the old member out, and it in.
        ("broker,controller", ["formed", "kafka-2"], MEMBERS, "--no-initial-controllers", True),
        # The only voter begins anew when it may.
        ("broker,controller", ["formed", "kafka-2"], "", "--standalone", False),
        # All three would wait for each other if what an earlier platform left made each a new member.
        ("broker,controller", ["kafka-2"], MEMBERS, f"--initial-controllers {MEMBERS}", True),
    ],
)
def test_how_it_is_formatted_once_follows_from_its_role_and_what_is_known_of_the_quorum(
    *, kafka: Path, roles: str, there: list[str], members: str, how: str, joins: bool
) -> None:
    _mount(kafka, roles)
    for name in there:
        (kafka / "quorum" / name).touch()
    for _ in range(2):
        assert _start(kafka, KAFKA_INITIAL_CONTROLLERS=members).returncode == 0
        assert ((kafka / "config").read_text().splitlines()[-1] == AUTO_JOIN) is joins
    assert [("StorageTool" in call) for call in _calls(kafka)] == [True, False, False]
    assert _calls(kafka)[0].endswith(f"--cluster-id C1 {how}")


@pytest.mark.parametrize("roles", ["controller", "broker,controller"])
@pytest.mark.parametrize(("members", "way_out"), [(MEMBERS, "join as a new member"), ("", "begin with no topics")])
def test_a_voter_that_lost_its_disk_is_not_formatted_for_the_same_quorum(
    kafka: Path, roles: str, members: str, way_out: str
) -> None:
    """It would have its old directory id, and vote without the log that it had acknowledged."""
    _mount(kafka, roles)
    (kafka / "quorum" / "formed").touch()
    ended = _start(kafka, KAFKA_INITIAL_CONTROLLERS=members)
    assert ended.returncode == 65
    assert f"{kafka / 'data'} is empty, and node 2 is a voter of a quorum that was formed before" in ended.stderr
    assert way_out in ended.stderr
    assert "kubectl create configmap kafka-rejoin --from-literal=kafka-2=" in ended.stderr
    assert _calls(kafka) == []


def test_a_formed_quorum_with_its_disks_starts_as_ever(kafka: Path) -> None:
    _start(kafka, KAFKA_INITIAL_CONTROLLERS=MEMBERS)
    (kafka / "quorum" / "formed").touch()
    ended = _start(kafka, KAFKA_INITIAL_CONTROLLERS=MEMBERS)
    assert ended.returncode == 0, ended.stderr
    assert [("StorageTool" in call) for call in _calls(kafka)] == [True, False, False]
    assert AUTO_JOIN not in (kafka / "config").read_text()


def test_letting_another_one_in_lets_nobody_else_in(kafka: Path) -> None:
    for name in ("formed", "kafka-1"):
        (kafka / "quorum" / name).touch()
    assert _start(kafka, KAFKA_INITIAL_CONTROLLERS=MEMBERS).returncode == 65
    assert AUTO_JOIN not in (kafka / "config").read_text()


@pytest.mark.parametrize(
    ("env", "code", "said"),
    [
        ({"KAFKA_CLUSTER_ID": ""}, 1, "KAFKA_CLUSTER_ID: is not set"),
        ({"HOSTNAME": "kafka"}, 64, "the host name 'kafka' ends with no number"),
        ({"HOSTNAME": "kafka-x1"}, 64, "ends with no number"),
    ],
)
def test_a_node_without_a_place_is_refused(kafka: Path, env: dict[str, str], code: int, said: str) -> None:
    ended = _start(kafka, **env)
    assert ended.returncode == code
    assert said in ended.stderr
    assert _calls(kafka) == []


def test_without_its_configuration_it_is_refused(kafka: Path) -> None:
    (kafka / "given").unlink()
    ended = _start(kafka)
    assert ended.returncode == 66
    assert "mount the configuration" in ended.stderr


def test_a_failed_formatting_does_not_start_a_broker(kafka: Path) -> None:
    ended = _start(kafka, FAIL="1")
    assert ended.returncode != 0
    assert len(_calls(kafka)) == 1
