"""A change has taken effect where its value counts, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.harness.upgrade.look import (
    Effect,
    Look,
    Server,
    fingerprint,
    read_pods,
    read_servers,
    see_certificates,
    see_cpu,
    see_executors,
    see_logins,
    see_settings,
    see_shards,
    see_wheel,
)

VERSIONS = {"checksum/config": "c1", "checksum/spark-secret": "0"}
BEFORE = Look("a", "job:1", "w1", VERSIONS, "s1", "a", "w1", 2, {"broker": (Server("p1", True, "60m"),)}, {"up": "x"})
NEW = replace(BEFORE, driver="b", started="b")
"""Another driver, and nothing else is new."""
BUMPED = replace(NEW, image="job:2", wheel_digest="w2", pinned="w2")
ROTATED = replace(NEW, versions={**VERSIONS, "checksum/spark-secret": "1"}, secrets={"up": "y"})
ROLLED = replace(BEFORE, servers={"broker": (Server("p2", True, "61m", versions={"checksum/security": "1"}),)})


def server(**fields: Any) -> Look:
    return replace(ROLLED, servers={"broker": (replace(ROLLED.servers["broker"][0], **fields),)})


@pytest.mark.parametrize(
    ("sees", "now"),
    [
        (see_wheel, BUMPED),
        (see_settings("s2"), replace(NEW, settings="s2")),
        (see_executors(3), replace(NEW, executors=3)),
        (see_logins, ROTATED),
        (see_cpu("broker", "61m"), ROLLED),
        (see_certificates("broker"), ROLLED),
    ],
    ids=["wheel", "settings", "executors", "logins", "cpu", "certificates"],
)
def test_what_is_there_is_seen_and_not_before(sees: Effect, now: Look) -> None:
    assert sees(BEFORE, now) == ""
    assert sees(BEFORE, BEFORE)


@pytest.mark.parametrize(
    ("sees", "now", "why"),
    [
        (see_wheel, replace(BUMPED, driver=""), "no driver runs"),
        (see_wheel, replace(BUMPED, driver="a"), "the driver is the one of before"),
        (see_wheel, replace(BUMPED, started="a"), "the new driver has not taken the chain over"),
        (see_wheel, replace(BUMPED, wheel_digest="w1"), "the driver runs the version of before, job:2"),
        (see_wheel, replace(BUMPED, pinned="w1"), "no epoch was declared by the new version"),
        (see_settings("s2"), NEW, "the driver that runs announced other settings than the new ones"),
        (
            see_shards(3, "s2"),
            replace(NEW, shards=3),
            "the driver that runs announced other settings than the new ones",
        ),
        (see_shards(3, "s1"), replace(NEW, shards=2), "the newest epoch has 2 shards, 3 are due"),
        (see_executors(3), NEW, "2 executors run, 3 are due"),
        (see_logins, NEW, "the driver has checksum/spark-secret of before"),
        (see_logins, replace(ROTATED, secrets=BEFORE.secrets), "Secret up holds what it held"),
        (see_cpu("broker", "61m"), server(cpu="60m"), "pods of the broker ask for 60m, 61m is due"),
        (see_cpu("broker", "61m"), server(uid="p1"), "1 of 1 pods of the broker are those of before"),
        (see_cpu("broker", "61m"), server(ready=False), "not every pod of the broker is ready"),
        (see_cpu("broker", "61m"), replace(ROLLED, servers={}), "0 of 1 pods of the broker are there"),
        (see_certificates("broker"), server(versions={}), "a pod of the broker reads what those of before read"),
    ],
)
def test_what_is_not_there_is_named(sees: Effect, now: Look, why: str) -> None:
    assert sees(BEFORE, now) == why


def test_a_driver_without_logins_shows_no_rotation() -> None:
    bare = replace(BEFORE, versions={"checksum/config": "c"})
    assert see_logins(bare, replace(bare, driver="b", started="b")) == (
        "the driver was given no login whose version could be told"
    )


def pod(uid: str, role: str, created: str = "1", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "labels": {"spark-role": role}, "creationTimestamp": created, **metadata},
        "spec": {
            "containers": [
                {"image": f"job:{uid}", "env": [{"name": "EFFECTIVELY_ONCE_WHEEL_DIGEST", "value": uid}, {"name": "X"}]}
            ]
        },
        "status": {"phase": "Running"},
    }


def test_of_pods_the_newest_driver_that_is_to_stay_counts() -> None:
    old, new = pod("a", "driver"), pod("b", "driver", "2", annotations={"checksum/config": "c", "other": "o"})
    leaving = pod("c", "driver", "3", deletionTimestamp="now")
    found = read_pods([old, new, leaving, pod("e", "executor"), pod("f", "executor", deletionTimestamp="now")])
    assert found == {
        "executors": 1,
        "driver": "b",
        "image": "job:b",
        "wheel_digest": "b",
        "versions": {"checksum/config": "c"},
    }
    assert read_pods([leaving]) == {"executors": 0}


def test_a_server_is_read_with_what_it_asks_for() -> None:
    told = pod("p", "server")
    resources = {"requests": {"cpu": "60m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    told["spec"]["containers"][0]["resources"] = resources
    told["status"]["containerStatuses"] = [{"ready": True}]
    told["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": "postgres-1-0"}}, {"name": "data"}]
    versions = {"mounted/tls": "postgres-1-0"}
    assert read_servers([told, pod("q", "server", deletionTimestamp="now")]) == (
        Server("p", True, "60m", "1Gi", "2Gi", versions),
    )


def test_a_fingerprint_tells_contents_apart_and_nothing_else() -> None:
    one, other = {"data": {"a": "s3cret", "b": "1"}}, {"data": {"b": "1", "a": "s3cret"}}
    assert fingerprint(one, b"salt") == fingerprint(other, b"salt")
    assert fingerprint(one, b"salt") != fingerprint({"data": {"a": "x", "b": "1"}}, b"salt")
    assert fingerprint(one, b"salt") != fingerprint(one, b"another")
    assert "x" not in repr(replace(BEFORE, secrets={"up": "fingerprint-x"}))[-20:]
