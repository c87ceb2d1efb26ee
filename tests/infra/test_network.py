"""What the program hands the charts' NetworkPolicies, and the namespaces that it closes itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.components import history_server, kafka, network, object_store, streaming_pipeline
from infra.components.network import DEFAULT_DENY, NAME
from infra.settings import Settings, SettingsError
from infra.values.network import ANYWHERE, Block, Egress, PipelinePolicies, Pods, anywhere, block
from tests.infra.platform import crds, deploy, deploy_once, settings

OURS = ("effectively-once", "effectively-once-operator", "effectively-once-pipelines")


def pipeline(wanted: Settings) -> PipelinePolicies:
    return streaming_pipeline.values(wanted, wanted.pipelines["user_counts"]).network_policies


def test_namespaces_of_ours_are_closed_when_all_else_is_there() -> None:
    """Earlier, a platform without policies would be cut off from itself until those of its charts are there."""
    engine = deploy_once(settings(profile="ci")).engine
    made = engine.of("NetworkPolicy")
    assert {one.inputs["metadata"]["namespace"] for one in made.values()} == {*OURS}
    for one in made.values():
        assert one.inputs["spec"] == DEFAULT_DENY == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
        assert one.inputs["metadata"]["name"] == NAME
        assert engine.below(one) >= set(engine.of("Chart"))


def test_a_namespace_that_was_there_before_is_not_closed_to_the_pods_of_others(tmp_path: Path) -> None:
    engine = deploy(settings(), crds(tmp_path), brought={OURS[0]: None}).engine
    assert {one.inputs["metadata"]["namespace"] for one in engine.of("NetworkPolicy").values()} == {*OURS[1:]}


def test_without_policies_there_are_none_anywhere() -> None:
    engine = deploy_once(settings(network_policies={"enabled": False})).engine
    assert not engine.of("NetworkPolicy")
    for name, one in engine.of("Chart").items():
        assert one.inputs["values"]["networkPolicies"]["enabled"] is False, name


@pytest.mark.parametrize("profile", ["laptop", "ci", "chaos", "brokers", "ha", "production"])
def test_they_are_on_in_every_profile(profile: str) -> None:
    assert settings(profile=profile).network_policies.enabled


def test_servers_that_are_there_already_are_reached_by_their_ports_wherever_they_are() -> None:
    """Policies know no host names; pods are named too, as some networks do not take them for addresses."""
    wanted = settings(
        kafka={"external": "a.example:9094,b.example:9095"},
        object_store={"external": {"endpoint": "https://s3.example", "credentials_secret": "a/b"}},
        result_store={"external": {"host": "postgres.example", "port": 6432, "credentials_secret": "a/b"}},
    )
    policies = pipeline(wanted)
    assert policies.kafka == anywhere(9094, 9095)
    assert policies.object_store == anywhere(443)
    assert policies.result_store == anywhere(6432)
    history = history_server.values(wanted)
    assert history is not None
    assert history.network_policies.object_store == anywhere(443)
    other = {"endpoint": "http://[2001:db8::1]:9000", "credentials_secret": "a/b"}
    assert object_store.egress(settings(object_store={"external": other})) == anywhere(9000)


def test_the_address_of_the_api_server_narrows_what_is_open_to_it_and_opens_drivers_to_it() -> None:
    assert pipeline(settings()).api_server == Egress(addresses=ANYWHERE, ports=(443, 6443))
    assert pipeline(settings()).viewers == ()
    known = settings(network_policies={"api_server": ["10.96.0.1/32", "172.18.0.2/32"], "api_server_ports": [8443]})
    addresses = (Block(cidr="10.96.0.1/32"), Block(cidr="172.18.0.2/32"))
    assert network.api_server(known) == Egress(addresses=addresses, ports=(8443,)) == pipeline(known).api_server
    assert pipeline(known).viewers == addresses


def test_namespaces_that_are_named_may_connect_to_a_server() -> None:
    policies = kafka.values(settings(kafka={"clients": ["gateways"]}))
    assert policies is not None
    assert Pods(namespace="gateways") in policies.network_policies.clients
    closed = kafka.values(settings())
    assert closed is not None
    assert Pods(namespace="gateways") not in closed.network_policies.clients


def test_the_code_of_a_job_connects_to_what_it_names() -> None:
    targets = [{"namespace": "payments", "ports": [8080]}, {"addresses": ["10.0.0.0/8"], "ports": [443]}]
    egress = pipeline(settings(pipelines={"user_counts": {"egress": targets}})).egress
    assert egress == (
        Egress(pods=Pods(namespace="payments"), ports=(8080,)),
        Egress(addresses=(block("10.0.0.0/8"),), ports=(443,)),
    )


@pytest.mark.parametrize(
    ("cidr", "excluded"),
    [
        ("0.0.0.0/0", ("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32")),
        ("::/0", ("fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128")),
        ("100.64.0.0/10", ("100.100.100.200/32",)),
        ("10.0.0.0/8", ()),
        # Named by itself it is meant.
        ("169.254.169.254/32", ()),
    ],
)
def test_metadata_of_clouds_is_left_out_of_every_range_that_has_it(cidr: str, excluded: tuple[str, ...]) -> None:
    assert block(cidr).excluded == excluded


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"network_policies": {"api_server": ["10.0.0.1/8"]}}, r"network_policies.api_server.0: .* has host bits set"),
        ({"network_policies": {"enable": False}}, "network_policies.enable: no such setting; allowed are enabled"),
        ({"network_policies": {"api_server_ports": []}}, "network_policies.api_server_ports: "),
        ({"kafka": {"clients": ["A"]}}, "kafka.clients.0: "),
        (
            {"pipelines": {"a": {"egress": [{"ports": [1]}]}}},
            "a.egress.0: either namespace or addresses have to be set",
        ),
        ({"pipelines": {"a": {"egress": [{"namespace": "b"}]}}}, "a.egress.0.ports: has to be set"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(config: dict[str, object], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        settings(**config)
