"""Configuration becomes settings, or is refused with the field's name before anything is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime import set_all_config
from pydantic import ValidationError

from infra import assembly
from infra.cluster.kind import PORTS
from infra.cluster.lifecycle import NODES
from infra.components import kafka, streaming_pipeline
from infra.settings import SettingsError, images_from, load, read
from infra.settings.profiles import PROFILES
from infra.settings.security import SERVERS
from tests.infra.platform import IMAGES, PLAIN, crds, settings, with_crds


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_profile_makes_possible_values(profile: str, tmp_path: Path) -> None:
    wanted = settings(profile=profile)
    assembly.check(with_crds(wanted, crds(tmp_path)))
    assert [*wanted.pipelines] == ["user_counts"]


def test_laptop_is_what_an_unconfigured_stack_gets() -> None:
    wanted = settings()
    pipeline = wanted.pipelines["user_counts"]
    assert (wanted.profile, wanted.storage.delete_volumes) == ("laptop", True)
    assert (pipeline.topic, pipeline.partitions, pipeline.shards) == ("events", 4, 2)


def test_configuration_wins_field_by_field() -> None:
    wanted = settings(profile="production", kafka={"heap_mib": 4096}, pipelines={"user_counts": {"shards": 3}})
    assert (wanted.kafka.heap_mib, wanted.kafka.nodes, wanted.kafka.storage_size) == (4096, 3, "100Gi")
    assert (wanted.pipelines["user_counts"].shards, wanted.pipelines["user_counts"].partitions) == (3, 12)


def test_configured_pipelines_are_all_there_are() -> None:
    assert [*settings(pipelines={"audit": None}).pipelines] == ["audit"]
    assert [*settings(pipelines=[{"name": "audit"}, {"name": "billing"}]).pipelines] == ["audit", "billing"]


def test_a_prefix_parts_everything_that_a_pipeline_owns() -> None:
    ours, theirs = (settings(pipeline_prefix=prefix).pipelines["user_counts"] for prefix in ("ours_", "theirs_"))
    assert (ours.identity, ours.topic) == ("ours_user_counts", "ours_events")
    assert (theirs.identity, theirs.topic) == ("theirs_user_counts", "theirs_events")
    assert ours.job == theirs.job == "effectively_once_jobs.user_counts"


CLICKS = "effectively-once-job-clicks:0123456789ab"
DIGEST = f"sha256:{'0a' * 32}"


def test_a_wheel_of_ones_own_has_an_image_and_a_job_of_its_name() -> None:
    file = {**IMAGES, "job-my-clicks": CLICKS}
    wanted = load({"pipelines": {"a": {"wheel": "my-clicks"}, "b": {"wheel": "my-clicks", "job": "x.y:z"}}}, file)
    assert wanted.images.jobs == {"my-clicks": CLICKS}
    assert [one.job for one in wanted.pipelines.values()] == ["my_clicks", "x.y:z"]
    assert "jobs" not in IMAGES


@pytest.mark.parametrize(
    "image",
    ["registry.example:5000/clicks:1.2", f"clicks@{DIGEST}", f"registry.example:5000/a/clicks:latest@{DIGEST}"],
)
def test_an_image_is_named_by_what_does_not_change(image: str) -> None:
    wanted = settings(pipelines={"a": {"image": image, "job": "clicks"}}, images={"kafka": image, "job-b": image})
    assert (wanted.pipelines["a"].image, wanted.images.kafka, wanted.images.jobs["b"]) == (image, image, image)


@pytest.mark.parametrize(
    ("config", "grace"),
    [
        ({}, 30),
        ({"profile": "production"}, 120),
        ({"pipelines": {"user_counts": {"driver_grace_s": 7}}, "profile": "production"}, 7),
    ],
)
def test_how_long_a_driver_may_finish_its_epoch_is_a_setting(config: dict[str, object], grace: int) -> None:
    wanted = settings(**config)
    assert streaming_pipeline.values(wanted, wanted.pipelines["user_counts"]).driver_grace_s == grace


def test_where_a_pipeline_begins_is_what_its_driver_is_told() -> None:
    at = "2026-11-20T00:00:00+01:00"
    wanted = settings(pipelines={"user_counts": {"begins_at": at}, "clicks2": {"job": "clicks"}})
    told = {name: streaming_pipeline.values(wanted, each).settings for name, each in wanted.pipelines.items()}
    assert (told["user_counts"].begins_at, told["clicks2"].begins_at) == (at, None)


@pytest.mark.parametrize(("at", "says"), [("2026-02-31T00:00Z", "day is out of range"), ("2999-01-01T00:00Z", "been")])
def test_what_only_the_drivers_own_rules_refuse_is_named_too(at: str, says: str) -> None:
    with pytest.raises(SettingsError, match=rf"^pipelines\.a\.begins_at: .*{says}"):
        assembly.check(settings(pipelines={"a": {"job": "a", "begins_at": at}}))


WRONG: list[tuple[dict[str, object], list[str]]] = [
    ({"profile": "prod"}, ["profile: one of laptop, ci, chaos, brokers, ha, production is allowed, got 'prod'"]),
    ({"kafka": {"nodes": 2}}, ["kafka.nodes: ", "1 or 3", "got 2"]),
    ({"pipelines": {"a": {"job": "a", "begins_at": "2026-11-20T00:00:00"}}}, ["pipelines.a.begins_at: ", "got '2026-"]),
    ({"namespce": "a"}, ["namespce: no such setting; allowed are ", "namespace"]),
    ({"kafka": {"node": 3}}, ["kafka.node: no such setting; allowed are external, nodes"]),
    (
        {"object_store": {"external": {"endpoint": "http://s3:9", "credentials_secret": "a/b", "url": "x"}}},
        ["object_store.external.url: no such setting; allowed are endpoint"],
    ),
    ({"object_store": {"external": {"endpoint": "http://s3:9"}}}, ["either credentials_secret or web_identity"]),
    (
        {"object_store": {"external": {"endpoint": "http://s3:9", "credentials_secret": "a/b", "ca_secret": "a/c"}}},
        ["http://s3:9 shows no certificate"],
    ),
    (
        {
            "object_store": {
                "external": {"endpoint": "http://s:9", "web_identity": {"role": "r"}, "session_token": True}
            }
        },
        ["session_token belongs to credentials_secret"],
    ),
    ({"kafka": {"security": {"protocol": "SSL"}}}, ["kafka.security: ", "kafka.external names none"]),
    (
        {"kafka": {"external": "b:1", "security": {"protocol": "TLS"}}},
        ["kafka.security.protocol: ", "got 'TLS'"],
    ),
    (
        {"kafka": {"external": "b:1", "security": {"protocol": "SASL_SSL"}}},
        ["kafka.security.credentials_secret: protocol SASL_SSL needs a login"],
    ),
    (
        {"kafka": {"external": "b:1", "security": {"protocol": "SSL", "credentials_secret": "a/b"}}},
        ["protocol SSL has no login"],
    ),
    (
        {"kafka": {"external": "b:1", "security": {"protocol": "SASL_PLAINTEXT", "ca_secret": "a/b"}}},
        ["SASL_PLAINTEXT shows no certificate"],
    ),
    (
        {"kafka": {"external": "b:1"}, "pipelines": {"a": {"job": "a.b", "kafka_credentials_secret": "a/b"}}},
        ["pipelines.a.kafka_credentials_secret: the broker asks for no login"],
    ),
    (
        {"result_store": {"external": {"host": "d", "credentials_secret": "a/b", "ssl_mode": "verify-full"}}},
        ["ca_secret and ssl_mode verify-ca or verify-full belong together"],
    ),
    ({"object_store": {"external": {"endpoint": "s3:9", "credentials_secret": "a/b"}}}, ["endpoint: ", "got 's3:9'"]),
    ({"pipelines": {"a": {"shard": 1}}}, ["pipelines.a.shard: no such setting; allowed are identity, job"]),
    (
        {"pipelines": {"a": {"backup": {"schedule": "@daily", "place": "s3://effectively-once/a/x"}}}},
        ["pipelines.a: ", "lies among the pipeline's own objects", "name another prefix"],
    ),
    ({"pipelines": {"a": {"backup": {"schedule": "daily"}}}}, ["pipelines.a.backup.schedule: ", "pattern"]),
    ({"pipelines": {"a": {"driver_grace_s": 301}}}, ["pipelines.a.driver_grace_s: ", "less than or equal to 300"]),
    ({"pipelines": {"a": {"shards": 0}}}, ["pipelines.a.shards: ", "greater than or equal to 1", "got 0"]),
    ({"pipelines": {"A-b": {"job": "own.a"}}}, ["pipelines.A-b.identity: ", "got 'A-b'"]),
    ({"pipelines": 3}, ["pipelines: ", "got 3"]),
    ({"pipelines": {"a": 3}}, ["pipelines.a: ", "got 3"]),
    ({"pipelines": [{"name": "a"}, {"name": "a"}]}, ["pipelines.a: the name is there twice"]),
    ({"pipelines": {"a": {}, "b": {"identity": "a"}}}, ["pipelines.b.identity: 'a' is the identity of a too"]),
    (
        {"pipelines": {"a": {"standby": True}, "b": {"identity": "a_standby"}}},
        ["pipelines.b.identity: 'a_standby' is the name of the standby of 'a'"],
    ),
    (
        {"pipelines": {"a": {"identity": "b_standby"}, "b": {"standby": True}}},
        ["pipelines.a.identity: 'b_standby' is the name of the standby of 'b'"],
    ),
    ({"pipelines": {"a": {"standby": True, "module": "a.b"}}}, ["standby is for declared jobs"]),
    ({"pipelines": {"a": {}, "b": {"topic": "a.accepted"}}}, ["pipelines.b.topic: ", "output topics of a (a.*)"]),
    ({"pipelines": {"a": {"topic": "a.in"}}}, ["pipelines.a.topic: ", "output topics of a"]),
    ({"pipelines": {"a": {"topic": "in,a.in"}}}, ["pipelines.a.topic: 'a.in' lies among", "output topics of a"]),
    ({"pipelines": {"a": {"topic": "in, out"}}}, ["pipelines.a.topic: ", "got 'in, out'"]),
    (
        {"pipelines": {"a": {}, "b": {"partitions": 8}}},
        ["pipelines.b.partitions: a makes topic 'events' with 4, got 8"],
    ),
    (
        {"pipelines": {"a": {"topic": "in,out"}, "b": {"topic": "in", "partitions": 8}}},
        ["pipelines.b.partitions: a makes topic 'in' with 4, got 8"],
    ),
    ({"pipelines": {"a": {"wheel": "clicks"}}}, ["pipelines.a.wheel: no image has 'clicks' (there: none)", "WHEEL="]),
    ({"pipelines": {"a": {"image": "clicks:1"}}}, ["pipelines.a.job: has to be set"]),
    ({"pipelines": {"a": {"image": "clicks", "job": "b"}}}, ["pipelines.a.image: ", "got 'clicks'"]),
    ({"pipelines": {"a": {"image": "reg:5000/clicks", "job": "b"}}}, ["pipelines.a.image: ", "got 'reg:5000/clicks'"]),
    ({"pipelines": {"a": {"image": "clicks:latest", "job": "b"}}}, ["pipelines.a.image: ", "other than `latest`"]),
    ({"images": {"spark": "clicks@sha256:0a"}}, ["images.spark: ", "@sha256: and 64 hex digits", "clicks@sha256:0a"]),
    ({"images": {"kafka": "reg:5000/kafka:latest"}}, ["images.kafka: ", "other than `latest`"]),
    ({"images": {"job-b": "reg:5000/b"}}, ["images.jobs.b: ", "got 'reg:5000/b'"]),
    ({"pipelines": {"a": {"image": "c:1", "wheel": "c"}}, "images": {"job-c": "c:2"}}, ["pipelines.a.image: ", "'c'"]),
    ({"pipelines": {"a": {"job": "no-module"}}}, ["pipelines.a.job: ", "got 'no-module'"]),
    (
        {"pipelines": {"a": {"result_store": True}}, "result_store": {"enabled": False}},
        ["pipelines.a.result_store: there is none"],
    ),
    (
        {"pipelines": {"history_server": {"job": "own.a"}}},
        ["pipelines.history_server.identity: 'history_server' ", "keys of the history server", "name another"],
    ),
    (
        {"pipelines": {"a": {"job": "own.a", "identity": "history_server"}}, "security": {"object_store": True}},
        ["pipelines.a.identity: 'history_server' "],
    ),
    (
        {
            "pipelines": {"server": {"job": "own.a"}},
            "pipeline_prefix": "history_",
            "security": {"object_store": True},
        },
        ["pipelines.server.identity: 'history_server' "],
    ),
    ({"security": {"kafka": True}, "kafka": {"external": "b:1"}}, ["security.kafka: it is that of our own broker"]),
    (
        {
            "security": {"object_store": True},
            "object_store": {"external": {"endpoint": "https://s3", "credentials_secret": "a/b"}},
        },
        ["security.object_store: it is that of our own store"],
    ),
    (
        {
            "security": {"result_store": True},
            "result_store": {"external": {"host": "d", "credentials_secret": "a/b"}},
        },
        ["security.result_store: it is that of our own server"],
    ),
    ({"pipeline_defaults": {}}, ["pipeline_defaults: "]),
    ({"images": {"kafka": ""}}, ["images.kafka: ", "got ''"]),
    ({"images": "kafka"}, ["images: "]),
    ({"image_pull_secrets": "registry"}, ["image_pull_secrets: ", "got 'registry'"]),
]


@pytest.mark.parametrize(("config", "parts"), WRONG, ids=lambda one: json.dumps(one)[:40])
def test_wrong_configuration_is_refused_by_name(config: dict[str, object], parts: list[str]) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(**config)
    assert len(refused.value.lines) == 1, refused.value.lines
    for part in parts:
        assert part in refused.value.lines[0]


def test_the_history_servers_name_is_free_where_it_has_no_keys_of_its_own() -> None:
    pipelines = {"history_server": {"job": "own.a"}}
    settings(pipelines=pipelines, security=PLAIN)
    settings(pipelines=pipelines, security={"object_store": False})
    settings(pipelines=pipelines, history_server={"enabled": False})


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        settings(namespace="No", kafka={"nodes": 2}, storage={"delete_volumes": "perhaps"})
    assert [line.split(":")[0] for line in refused.value.lines] == [
        "namespace",
        "storage.delete_volumes",
        "kafka.nodes",
    ]


def test_what_only_a_chart_knows_to_be_wrong_is_refused_too(tmp_path: Path) -> None:
    wanted = settings(pipelines={"a": {"spark_conf": {"spark.hadoop.fs.s3a.secret.key": "x"}}})
    with pytest.raises(SettingsError, match=r"^pipelines\.a: .*credentialsSecret") as refused:
        assembly.check(with_crds(wanted, crds(tmp_path)))
    assert len(refused.value.lines) == 1


def test_images_come_from_the_file_and_configuration_wins(tmp_path: Path) -> None:
    file = tmp_path / "images.json"
    file.write_text(json.dumps(IMAGES))
    found = images_from({"EFFECTIVELY_ONCE_IMAGES": str(file)})
    wanted = load({"images": {"kafka": "registry.example/kafka:2"}}, found)
    assert (wanted.images.kafka, wanted.images.spark) == ("registry.example/kafka:2", IMAGES["spark"])


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_an_unusable_file_of_images_is_named(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "images.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingsError, match=r"images: .*images\.json"):
        images_from({"EFFECTIVELY_ONCE_IMAGES": str(file)})


def test_without_images_one_line_says_where_they_come_from() -> None:
    with pytest.raises(SettingsError, match=r"^images: .*EFFECTIVELY_ONCE_IMAGES") as refused:
        load({}, {})
    assert len(refused.value.lines) == 1


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        settings().kafka.nodes = 3


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield an environment with images; empty the stack's configuration afterwards."""
    file = tmp_path / "images.json"
    file.write_text(json.dumps(IMAGES))
    yield {"EFFECTIVELY_ONCE_IMAGES": str(file)}
    set_all_config({})


def test_the_stack_configuration_is_read_whole(stack: dict[str, str]) -> None:
    """Texts stay texts, everything else is what it says; other projects' keys are left alone."""
    set_all_config(
        {
            "effectively-once:profile": "ci",
            "effectively-once:confirm_context": "17",
            "effectively-once:adopt_credentials": "true",
            "effectively-once:kafka": '{"heap_mib": 512}',
            "kubernetes:context": "other",
        }
    )
    wanted = read(stack)
    assert (wanted.profile, wanted.confirm_context, wanted.adopt_credentials) == ("ci", "17", True)
    assert wanted.kafka.heap_mib == 512


def test_a_mistyped_key_of_the_stack_is_refused(stack: dict[str, str]) -> None:
    set_all_config({"effectively-once:kafak": "{}"})
    with pytest.raises(SettingsError, match="kafak: no such setting"):
        read(stack)


def test_the_profile_with_three_brokers_has_three_copies_and_is_reached_by_published_ports() -> None:
    wanted = settings(profile="brokers")
    chart, pipeline = kafka.values(wanted), streaming_pipeline.values(wanted, wanted.pipelines["user_counts"])
    assert chart is not None
    assert (chart.nodes, chart.controllers, chart.replication, pipeline.source.replication) == (3, 0, 3, 3)
    addresses = str(kafka.outputs(wanted).external_bootstrap).split(",")
    assert len(addresses) == 3
    for number, address in enumerate(addresses):
        assert PORTS[int(address.rpartition(":")[2])] == chart.external.node_port + number
    assert NODES["brokers"] == 1


def test_the_small_copy_of_production_has_as_many_of_everything() -> None:
    def copies(profile: str) -> tuple[object, ...]:
        one = settings(profile=profile)
        return (
            *(one.kafka.nodes, one.kafka.controllers, one.object_store.nodes, one.spark_operator.replicas),
            one.scheduling.spread,
        )

    assert copies("ha") == copies("production") == (3, 3, 4, 2, "hard")
    assert NODES["ha"] == 3


def test_one_setting_secures_all_that_is_ours_but_for_what_is_named() -> None:
    four = ("spark", "kafka", "object_store", "result_store")

    def secured(**config: Any) -> list[str]:
        found = settings(**config).security
        return [name for name in four if getattr(found, name)]

    for profile in PROFILES:
        assert secured(profile=profile) == secured(profile=profile, security={"level": "all"}) == [*four]
        assert secured(profile=profile, security={"level": "each"}) == []
    assert secured(security={"level": "each", "kafka": True}) == ["kafka"]
    assert secured(security={"spark": False}) == ["kafka", "object_store", "result_store"]
    for one in four:
        assert one not in secured(security={"level": "all", one: False})
    store = {"endpoint": "https://s3", "credentials_secret": "vault/s3"}
    found = secured(kafka={"external": "b:1"}, object_store={"external": store})
    assert found == ["spark", "result_store"], "what somebody else runs has a security of its own"
    with pytest.raises(SettingsError, match=r"security\.level: .*'everything'"):
        settings(security={"level": "everything"})


@pytest.mark.parametrize(
    ("security", "asked"),
    [
        ({}, []),
        ({"rotation": 1, "campaigns": True, "spark": False}, []),
        ({"kafka": True}, ["kafka"]),
        ({"kafka": False, "result_store": True}, ["kafka", "result_store"]),
        ({"level": "all"}, [*SERVERS]),
        ({"level": "each"}, [*SERVERS]),
    ],
)
def test_a_default_is_told_from_what_configuration_says(security: dict[str, object], asked: list[str]) -> None:
    found = settings(security=security).security
    assert [server for server in SERVERS if found.is_asked(server)] == asked
