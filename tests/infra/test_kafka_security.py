"""Each pipeline has a login of Kafka's with rights on its own names; nodes have certificates of our authority."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from effectively_once.operate.grant import Right
from effectively_once.sources.statement import topic_of
from infra.components import kafka_security
from infra.components.derived import derive
from infra.settings import Settings, SettingsError
from tests.charts.render import environment, render
from tests.infra.platform import PLAIN, Deployed, crds, deploy, deploy_once, settings

PIPELINES = {"user_counts": {}, "clicks": {"job": "own.clicks", "topic": "clicks", "create_topic": False}}
NOT_OURS = ("platform-root", "minio-root")


def wanted(external_access: Any = None, **security: Any) -> Settings:
    more = {"external_access": external_access} if external_access else {}
    return settings(profile="production", security={**PLAIN, "kafka": True, **security}, pipelines=PIPELINES, **more)


def made(external_access: Any = None, **security: Any) -> Deployed:
    return deploy_once(wanted(external_access, **security))


def secrets(**given: Any) -> dict[str, dict[str, str]]:
    one = made(**given)
    return {name: one.secret(name) for name in one.engine.of("Secret") if name not in NOT_OURS}


def nodes(found: dict[str, dict[str, str]]) -> tuple[str, str]:
    """Return name and certificate of the nodes."""
    (name,) = (name for name in found if name.startswith("kafka-tls-"))
    return name, found[name]["keystore.pem"]


def field(certificate: str, name: str) -> str:
    words = ["openssl", "x509", "-noout", f"-{name}", "-nameopt", "multiline"]
    told = subprocess.run(words, input=certificate, capture_output=True, text=True, check=True).stdout
    return told.rpartition("=")[2].strip()


def signer(found: dict[str, dict[str, str]]) -> str:
    return field(nodes(found)[1], "issuer")


def believed(found: dict[str, dict[str, str]]) -> set[str]:
    begin = "-----BEGIN"
    return {field(begin + one, "subject") for one in found[nodes(found)[0]]["ca.crt"].split(begin)[1:]}


def test_both_sides_have_the_same_password_and_every_pipeline_another() -> None:
    one = made()
    users = one.secret("kafka-users-0-0")
    assert set(users) == {"user_counts", "clicks"}
    assert len({*users.values()}) == 2
    for user, password in users.items():
        own = one.secret(f"{user.replace('_', '-')}-kafka")
        assert (own["username"], own["password"]) == (user, password)
        assert f'password="{password}"' in own["jaas.conf"]


def test_certificates_and_authorities_survive_later_updates() -> None:
    found = made().engine.of("Secret")
    for name in ("platform-authority-0", nodes(secrets())[0], "kafka-admin-tls-0-0"):
        assert found[name].ignore_changes == ("data",), name


def test_an_authority_that_the_state_has_as_kafkas_is_the_one_that_is_kept() -> None:
    """It was below the component of brokers: made anew below another, the old one's end would take the new one away."""
    engine = made().engine
    (kind,) = (one.kind for one in engine.registered if one.name == "kafka-security")
    # As the real engine has it, which leaves the stack out; the mocked one does not.
    before = f"urn:pulumi:test::effectively-once::{kind}::kafka-security"
    for name, one in engine.of("Secret").items():
        assert one.parents_before == ((before,) if name.startswith("platform-authority") else ()), name


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.thinned(3)
def test_nodes_of_an_authority_and_of_the_next_one_believe_each_other(number: int) -> None:
    """They are started anew one by one: a node alone is out of the quorum, and the next one is not begun."""
    before, after = (secrets(authority=one) for one in (number, number + 1))
    assert signer(before) == f"effectively-once effectively-once {number}"
    assert {signer(before), signer(after)} <= believed(before) & believed(after)
    for one in (before, after):
        assert len({data["ca.crt"] for data in one.values() if "ca.crt" in data}) == 1, "everybody believes the same"


def test_the_authority_before_the_last_one_is_believed_no_more() -> None:
    assert signer(secrets(authority=0)) not in believed(secrets(authority=2))
    kept = {name for name in secrets(authority=2) if name.startswith("platform-authority")}
    assert kept == {f"platform-authority-{number}" for number in (1, 2, 3)}


def test_other_names_of_nodes_have_another_certificate(tmp_path: Path) -> None:
    """What was signed is kept by the state: below the same name it would lack them for ever."""
    outside = {"kafka": {"by": "LoadBalancer", "host": "kafka-{node}.example"}}
    names = [nodes(secrets(external_access=way))[0] for way in ({}, outside)]
    assert names[0] != names[1]
    assert names[0] in deploy(wanted(), crds(tmp_path)).engine.of("Secret")
    values = made(external_access=outside).values("kafka")
    assert values["security"]["tlsSecret"] == names[1]


def test_a_pipeline_may_use_its_own_names_alone() -> None:
    wanted = settings(pipelines=PIPELINES)
    own, other = wanted.pipelines["user_counts"], wanted.pipelines["clicks"]
    rights = list(kafka_security.rights(own))
    for kind in ("topic", "transactional_id"):
        writes = {(one.name, one.prefixed) for one in rights if one.kind == kind and "WRITE" in one.operations}
        assert writes == {("user_counts.", True)}
    named = {(one.kind, one.name): one.operations for one in rights}
    assert "CREATE" in named["topic", own.topic]
    assert not [one for one in rights if other.identity in one.name]
    reading = {(one.kind, one.name): one.operations for one in kafka_security.rights(other)}
    assert "CREATE" not in reading["topic", "clicks"], "it is somebody else's to make"


def test_a_pipeline_may_read_each_of_its_topics() -> None:
    wanted = settings(pipelines={**PIPELINES, "several": {"job": "own.several", "topic": "orders,refunds"}})
    rights = {one.name: one.operations for one in kafka_security.rights(wanted.pipelines["several"])}
    for topic in ("orders", "refunds"):
        assert "READ" in rights[topic]
        assert "READ" in rights[topic_of(topic)]
    assert not [name for name in rights if "," in name]


def test_who_is_no_pipeline_has_a_login_and_the_topics_that_are_named() -> None:
    users = {"tills": {"writes": ["events"]}, "ledger": {"reads": ["clicks.", "events"]}}
    one = deploy_once(settings(security={"kafka": True}, pipelines=PIPELINES, kafka={"users": users}))
    assert one.secret("tills-kafka")["password"] == one.secret("kafka-users-0-0")["tills"]
    given = one.values("kafka")["security"]["users"]
    assert set(given) == {"user_counts", "clicks", *users}
    rights = {
        user: {(each["kind"], each["name"], each["prefixed"]): set(each["operations"]) for each in given[user]}
        for user in users
    }
    writes, reads = {"WRITE", "DESCRIBE"}, {"READ", "DESCRIBE"}
    assert rights["tills"] == {("topic", "events", False): writes, ("topic", topic_of("events"), False): writes}
    assert rights["ledger"] == {
        ("topic", "clicks.", True): reads,
        ("topic", "events", False): reads,
        ("group", "ledger.", True): reads,
    }


@pytest.mark.parametrize(
    ("users", "secured", "says"),
    [
        ({"tills": {"writes": ["events"]}}, False, "nobody logs in at the broker; set security.kafka"),
        ({"clicks": {"writes": ["events"]}}, True, "'clicks' is the login of the pipeline clicks"),
        ({"user_counts": {"writes": ["events"]}}, True, "'user_counts' is the login of the pipeline user_counts"),
        ({"tills": {"writes": ["clicks.accepted"]}}, True, "'clicks.accepted' lies among the output topics of clicks"),
        ({"tills": {}}, True, "a user who neither writes nor reads may do nothing"),
        ({"a-dash": {"writes": ["events"]}}, True, "kafka.users"),
    ],
)
def test_a_user_who_takes_a_pipelines_name_or_writes_its_outputs_is_refused(
    users: Any, secured: bool, says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        settings(security={"kafka": secured}, pipelines=PIPELINES, kafka={"users": users})


def test_who_runs_campaigns_may_do_everything_where_that_is_asked_for() -> None:
    for asked in (False, True):
        one = deploy_once(settings(security={"kafka": True, "campaigns": asked}, pipelines=PIPELINES))
        user, told = "platform-campaigns", one.platform["kafka"]
        assert told["secret"] == (f"{user}-kafka" if asked else None)
        assert "ca.crt" in one.secret(told["certificates"])
        assert (user in one.secret("kafka-users-0-0")) is asked
        if asked:
            assert one.secret(told["secret"])["password"] == one.secret("kafka-users-0-0")[user]
            rights = one.values("kafka")["security"]["users"][user]
            bindings = [each for right in rights for each in Right.model_validate(_plain(right)).bindings(user)]
            assert {(each.restype.name, each.name, each.operation.name) for each in bindings} == {
                *((kind, "*", "ALL") for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")),
                ("BROKER", "kafka-cluster", "ALL"),
            }
    plain = deploy_once(settings(pipelines=PIPELINES, security={**PLAIN, "campaigns": True})).platform["kafka"]
    assert (plain["secret"], plain["certificates"]) == (None, None)
    taken = {"clicks": {"job": "own.clicks", "secrets": {"A": {"secret": f"{user}-kafka", "key": "password"}}}}
    with pytest.raises(SettingsError, match="this program's own"):
        deploy_once(settings(security={"kafka": True}, pipelines=taken))


def test_who_runs_campaigns_keeps_its_login_when_others_get_new_ones() -> None:
    """A run that has every login changed while records flow goes on with its own."""
    one = made(campaigns=True, rotation=1)
    root, told = one.engine.of("Secret")["platform-root"].inputs["data"]["root"], one.secret("kafka-users-0-1")
    assert told["clicks"] == derive(root, "kafka/clicks", 1)
    assert told["platform-campaigns"] == derive(root, "kafka/platform-campaigns", 0)
    assert one.secret("platform-campaigns-kafka")["password"] == told["platform-campaigns"]


def _plain(right: dict[str, Any]) -> dict[str, Any]:
    return {name: right[name] for name in ("kind", "name", "prefixed", "operations")}


def test_a_pipeline_reads_what_its_sources_say_of_themselves() -> None:
    own = settings(pipelines=PIPELINES).pipelines["clicks"]
    named = {(one.kind, one.name): one.operations for one in kafka_security.rights(own)}
    assert named["topic", topic_of("clicks")] == named["topic", "clicks"]


def test_drivers_log_in_and_are_started_anew_for_another_password() -> None:
    pods = []
    for rotation in (0, 1):
        values = made(rotation=rotation).values("clicks")
        spec = render("streaming-pipeline", values, "clicks").one("SparkApplication", "clicks")["spec"]
        pods.append(spec["driver"]["template"])
        assert environment(pods[-1]["spec"])["KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
    assert pods[0]["metadata"] != pods[1]["metadata"]


def test_nodes_are_believed_for_every_name_that_they_tell_clients() -> None:
    hosts = kafka_security.hosts(settings(profile="production"))
    assert {"kafka.effectively-once.svc", "*.kafka-nodes.effectively-once.svc.cluster.local"} <= {*hosts}
    assert "*.kafka-controller-nodes.effectively-once.svc.cluster.local" in hosts
    outside = {"kafka": {"by": "LoadBalancer", "host": "kafka-{node}.example"}}
    named = kafka_security.hosts(settings(profile="production", external_access=outside))
    assert {f"kafka-{node}.example" for node in range(3)} <= {*named}


def test_no_pipeline_is_taken_for_who_may_do_everything() -> None:
    """Users are known by their names alone, whether a certificate or a login says them."""
    found = secrets()
    shown = (nodes(found)[1], found["kafka-admin-tls-0-0"]["tls.crt"])
    assert tuple(field(one, "subject") for one in shown) == kafka_security.MAY_ALL
    for name in kafka_security.MAY_ALL:
        with pytest.raises(SettingsError, match=r"pipelines\.\S+identity"):
            settings(pipelines={name: {"job": "own.clicks"}})
