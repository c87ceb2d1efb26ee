"""What the program registers with the engine, against a mocked one."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from infra.components import streaming_pipeline
from tests.infra.platform import PLAIN, Deployed, crds, deploy, deploy_once, secret_value, settings

RELEASES = {"minio", "kafka", "postgres", "spark-operator", "user-counts", "history-server"}


@pytest.fixture(scope="module")
def ci() -> Deployed:
    return deploy_once(settings(profile="ci"))


@pytest.fixture(scope="module")
def plain() -> Deployed:
    return deploy_once(settings(profile="ci", security=PLAIN))


def test_every_part_is_released_into_its_namespace(ci: Deployed) -> None:
    where = {name: one.inputs["namespace"] for name, one in ci.engine.of("Chart").items()}
    platform = "effectively-once"
    assert where == {
        "minio": platform,
        "kafka": platform,
        "postgres": platform,
        "history-server": platform,
        "spark-operator": f"{platform}-operator",
        "user-counts": f"{platform}-pipelines",
    }
    assert set(ci.engine.of("Namespace")) == set(where.values())


def test_releases_are_named_as_their_services_are(ci: Deployed) -> None:
    assert {one.inputs["name"] for one in ci.engine.of("Chart").values()} == RELEASES
    for one in ci.engine.of("Chart").values():
        assert (Path(one.inputs["chart"]) / "Chart.yaml").is_file(), one.inputs["chart"]


USES = {
    "user-counts": {"minio", "kafka", "spark-operator", "spark-operator-crds", "user-counts-object-store"},
    "history-server": {"user-counts"},
    "spark-operator": {"spark-operator-crds"},
}
"""The history server reads the bucket that pipelines make."""


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_everything_waits_for_its_namespace_and_for_what_it_uses(ci: Deployed, release: str) -> None:
    chart = ci.engine.of("Chart")[release]
    assert {chart.inputs["namespace"], *USES.get(release, ())} <= ci.engine.below(chart)


def test_a_pipeline_waits_for_keys_that_are_not_its_own_too(plain: Deployed) -> None:
    waits = plain.engine.below(plain.engine.of("Chart")["user-counts"])
    assert {"object-store-credentials-effectively-once-pipelines", "effectively-once-pipelines"} <= waits


@pytest.mark.parametrize("profile", ["ci", "brokers", "ha", "production"])
@pytest.mark.thinned(2)
def test_a_quorum_counts_as_formed_once_its_nodes_are_ready(profile: str) -> None:
    """Before that a node has to be formatted; and what says so lives as long as the disks."""
    wanted = settings(profile=profile)
    engine = deploy_once(wanted).engine
    formed = engine.of("ConfigMap")["kafka-formed"]
    assert "kafka" in engine.below(formed)
    assert formed.inputs["metadata"]["namespace"] == wanted.namespace
    assert set(formed.inputs["data"]) == {"formed"}
    assert formed.retained is not wanted.storage.delete_volumes
    assert "kafka-formed" not in deploy_once(settings(kafka={"external": "b:9092"})).engine.of("ConfigMap")


def test_passwords_survive_later_updates_and_copies_agree(plain: Deployed) -> None:
    secrets = plain.engine.of("Secret")
    root = secrets["minio-root"]
    assert root.ignore_changes == ("data",)
    assert secrets["postgres-credentials"].ignore_changes == ("data",)
    for copy in ("object-store-credentials-effectively-once", "object-store-credentials-effectively-once-pipelines"):
        assert secrets[copy].inputs["data"] == {
            "AWS_ACCESS_KEY_ID": root.inputs["data"]["rootUser"],
            "AWS_SECRET_ACCESS_KEY": root.inputs["data"]["rootPassword"],
        }
        assert "minio-root" in plain.engine.below(secrets[copy])


def test_passwords_are_long_and_drawn_anew_for_each_deployment(ci: Deployed, tmp_path: Path) -> None:
    other = deploy(settings(profile="ci"), crds(tmp_path))
    drawn = set()
    for deployed in (ci, other):
        secrets = deployed.engine.of("Secret")
        drawn.add(secrets["minio-root"].inputs["data"]["rootPassword"])
        drawn.add(secrets["postgres-credentials"].inputs["data"]["password"])
    assert len(drawn) == 4
    assert all(len(base64.b64decode(one)) >= 32 for one in drawn)


def test_the_output_says_where_everything_is(ci: Deployed, plain: Deployed) -> None:
    secured = [name for name in ci.engine.of("Secret") if name.startswith("kafka-tls-")]
    for one, scheme, certificates, authority, owners in (
        (ci, "https", secured, "object-store-certificates", "effectively-once"),
        (plain, "http", [None], None, "effectively-once-pipelines"),
    ):
        assert [one.platform["kafka"]] == [
            {
                "bootstrap": "kafka.effectively-once.svc:9092",
                "external_bootstrap": "127.0.0.1:12092",
                "certificates": each,
                "secret": None,
            }
            for each in certificates
        ]
        assert one.platform["object_store"] == {
            "endpoint": f"{scheme}://minio.effectively-once.svc:9000",
            "external_endpoint": f"{scheme}://127.0.0.1:12000",
            "external_console": f"{scheme}://127.0.0.1:12001",
            "certificates": authority,
            "secret": "object-store-credentials",
            "secret_namespace": owners,
        }
    assert ci.platform["history_server"] == {"external_url": "http://127.0.0.1:12080"}
    assert ci.platform["pipelines"]["user_counts"]["settings"]["topic"] == "events"
    assert ci.platform["pipelines"]["user_counts"] == ci.values("user-counts")


def test_a_second_run_asks_for_the_same(tmp_path: Path) -> None:
    """Apart from the passwords, whose changes are ignored, nothing differs from one update to the next."""

    def asked(deployed: Deployed) -> dict[str, object]:
        left_out = (":Secret", ":Stack")  # the first deployment of a process has a stack
        return {one.urn: one.inputs for one in deployed.engine.registered if not one.kind.endswith(left_out)}

    first, second = (asked(deploy(settings(profile="ci"), crds(tmp_path))) for _ in range(2))
    assert first == second


def test_volumes_and_passwords_stay_unless_their_removal_is_asked_for() -> None:
    for delete in (True, False):
        engine = deploy_once(settings(profile="ci", storage={"delete_volumes": delete})).engine
        kept = {one.name for one in engine.registered if one.retained}
        drawn = {"minio-root", "postgres-credentials", "platform-root"}
        assert kept == (set() if delete else {"effectively-once", "kafka-formed", *drawn})


def test_passwords_that_were_kept_are_taken_over() -> None:
    engine = deploy_once(settings(profile="production", adopt_credentials=True, security=PLAIN)).engine
    secrets = engine.of("Secret")
    assert "minio-root" not in secrets
    copy = secrets["object-store-credentials-effectively-once-pipelines"]
    assert copy.inputs["data"]["AWS_SECRET_ACCESS_KEY"] == secret_value("rootPassword")


def test_the_crds_are_those_of_the_folder_that_settings_name(tmp_path: Path) -> None:
    found = deploy(settings(profile="ci"), crds(tmp_path)).engine.of("ConfigGroup")["spark-operator-crds"]
    assert found.inputs["files"] == [f"{tmp_path / 'crds'}/sparkapplications.yaml"]


def test_what_the_user_brings_is_not_made() -> None:
    """External broker, store and database, and an installed operator: only pipelines and history server are made."""
    wanted = settings(
        kafka={"external": "broker.example:9092"},
        object_store={"external": {"endpoint": "https://s3.example", "credentials_secret": "vault/s3"}},
        result_store={"external": {"host": "db.example", "credentials_secret": "vault/db"}},
        spark_operator={"installed": True},
    )
    deployed = deploy(wanted)
    assert set(deployed.engine.of("Chart")) == {"user-counts", "history-server"}
    assert not deployed.engine.of("ConfigGroup")
    assert "effectively-once-operator" not in deployed.engine.of("Namespace")
    pipeline = deployed.platform["pipelines"]["user_counts"]["settings"]
    assert (pipeline["kafka_bootstrap"], pipeline["s3_endpoint"]) == ("broker.example:9092", "https://s3.example")
    assert deployed.platform["result_store"]["endpoint"] == "postgresql://db.example:5432/results"
    copy = deployed.engine.of("Secret")["object-store-credentials-effectively-once-pipelines"]
    assert copy.inputs["data"]["AWS_ACCESS_KEY_ID"] == secret_value("AWS_ACCESS_KEY_ID")


def test_one_operator_serves_the_pipelines_of_other_stacks_too() -> None:
    wanted = settings(profile="ci", spark_operator={"other_namespaces": ["second-pipelines"]})
    operator = deploy_once(wanted).engine.of("Chart")["spark-operator"]
    assert operator.inputs["values"]["namespaces"] == ["effectively-once-pipelines", "second-pipelines"]


def test_several_pipelines_share_a_platform_and_nothing_else() -> None:
    wanted = settings(pipeline_prefix="team_", pipelines={"user_counts": {}, "audit": {"job": "own.audit"}})
    deployed = deploy_once(wanted)
    assert {"team-user-counts", "team-audit"} <= set(deployed.engine.of("Chart"))
    found = deployed.platform["pipelines"]
    assert {one["settings"]["pipeline"] for one in found.values()} == {"team_user_counts", "team_audit"}
    assert {one["settings"]["topic"] for one in found.values()} == {"team_events"}


def test_a_pipeline_runs_the_image_with_its_wheel_and_pins_all_that_is_in_it() -> None:
    def released(**images: str) -> dict[str, Any]:
        pipelines = {"user_counts": {}, "clicks": {"wheel": "clicks"}, "audit": {"image": "own:1", "job": "audit"}}
        deployed = deploy_once(settings(pipelines=pipelines, images=images))
        return {name: deployed.values(name) for name in ("user-counts", "clicks", "audit")}

    here = released(**{"job-clicks": "effectively-once-job-clicks:1"})
    other = released(**{"job-clicks": "effectively-once-job-clicks:2"})
    assert here["clicks"]["image"] == "effectively-once-job-clicks:1"
    assert here["clicks"]["settings"]["job"] == "clicks"
    assert here["audit"]["image"] == "own:1"
    digests = [one["wheelDigest"] for one in (here["user-counts"], here["clicks"], here["audit"], other["clicks"])]
    assert len(set(digests)) == 4


def test_an_image_of_before_finishes_what_it_declared_whichever_setting_names_it() -> None:
    """So rollback is one setting, for all pipelines, for one, or for those of a wheel."""

    def digest(one: dict[str, Any], **images: str) -> str:
        wanted = settings(pipelines={"user_counts": {"job": "own", **one}}, images=images)
        return streaming_pipeline.values(wanted, wanted.pipelines["user_counts"]).wheel_digest

    before, pushed = "effectively-once-spark:before", "registry.example/a/effectively-once-spark:before"
    declared = digest({}, spark=before)
    assert digest({}, spark="effectively-once-spark:after") != declared
    assert digest({}, spark=pushed) == declared
    assert digest({"image": before}) == digest({"image": pushed}) == declared
    wheel = "effectively-once-job-clicks:before"
    assert digest({"wheel": "clicks"}, **{"job-clicks": wheel}) == digest({"image": wheel}) != declared


def test_the_digest_of_a_push_names_no_other_version_of_ours_and_another_one_of_yours() -> None:
    """Ours are named after their contents; under your own tag there may be another image, which the digest shows."""

    def pinned(image: str) -> str:
        wanted = settings(pipelines={"a": {"job": "own", "image": image}})
        values = streaming_pipeline.values(wanted, wanted.pipelines["a"])
        assert values.image == image
        return values.wheel_digest

    one, other = (f"@sha256:{digit * 64}" for digit in "0a")
    ours = "effectively-once-job-clicks:0123456789ab"
    assert len({pinned(ours), pinned(f"{ours}{one}"), pinned(f"registry.example/a/{ours}{other}")}) == 1
    yours = {pinned(f"{name}{end}") for name in ("own:1", "effectively-once-own:1") for end in ("", one, other)}
    assert len(yours) == 6


def test_files_beside_the_image_are_pinned_too() -> None:
    each = [{"user_counts": {"extra_files": files}} for files in ({}, {"a.py": "x = 1"}, {"a.py": "x = 2"})]
    deployed = [deploy_once(settings(pipelines=pipelines)) for pipelines in each]
    assert len({one.values("user-counts")["wheelDigest"] for one in deployed}) == 3


def test_a_pipeline_with_tables_has_the_address_and_a_copy_of_the_credentials() -> None:
    wanted = settings(profile="ci", security=PLAIN, pipelines={"user_counts": {"result_store": True}})
    engine = deploy_once(wanted).engine
    chart = engine.of("Chart")["user-counts"]
    assert chart.inputs["values"]["settings"]["database"] == "postgresql://postgres.effectively-once.svc:5432/results"
    name = chart.inputs["values"]["databaseSecret"]
    copy, owner = engine.of("Secret")[f"{name}-effectively-once-pipelines"], engine.of("Secret")["postgres-credentials"]
    assert copy.inputs["metadata"]["name"] == name
    assert copy.inputs["data"] == {
        "PGUSER": owner.inputs["data"]["username"],
        "PGPASSWORD": owner.inputs["data"]["password"],
    }
    assert "data" in copy.secret
    assert {copy.name, "postgres"} <= engine.below(chart)


def test_credentials_of_a_database_that_the_user_brings_are_copied() -> None:
    wanted = settings(
        result_store={"external": {"host": "db.example", "credentials_secret": "vault/db"}},
        pipelines={"user_counts": {"result_store": True}},
    )
    engine = deploy_once(wanted).engine
    values = engine.of("Chart")["user-counts"].inputs["values"]
    assert values["settings"]["database"] == "postgresql://db.example:5432/results"
    copy = engine.of("Secret")["result-store-credentials-effectively-once-pipelines"]
    assert copy.inputs["data"] == {"PGUSER": secret_value("username"), "PGPASSWORD": secret_value("password")}


def test_changing_a_pipeline_changes_only_its_release(ci: Deployed) -> None:
    changed = deploy_once(settings(profile="ci", pipelines={"user_counts": {"executors": {"count": 3}}}))
    before = {name: one.inputs for name, one in ci.engine.of("Chart").items()}
    after = {name: one.inputs for name, one in changed.engine.of("Chart").items()}
    assert {name for name in before if before[name] != after[name]} == {"user-counts"}


def test_scheduling_reaches_every_release() -> None:
    wanted = settings(
        architecture="arm64",
        scheduling={"node_selector": {"pool": "streams"}, "tolerations": [{"key": "streams", "operator": "Exists"}]},
        image_pull_secrets=["registry"],
    )
    for name, one in deploy_once(wanted).engine.of("Chart").items():
        values = one.inputs["values"]
        assert values["nodeSelector"] == {"pool": "streams", "kubernetes.io/arch": "arm64"}, name
        assert values["tolerations"] == [{"key": "streams", "operator": "Exists"}], name
        assert values["imagePullSecrets"] == ["registry"], name
