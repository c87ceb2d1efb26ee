"""Sizes and classes of volumes: no class that makes none, no other size, and never another volume."""

from __future__ import annotations

import pytest

from infra.components.shape import require_same
from infra.components.volumes import amount
from tests.infra.platform import settings
from tests.infra.there import LAPTOP, There, refusals

GROWS = {"standard": {"default": True, "grows": True}}


@pytest.mark.parametrize(
    ("classes", "named", "expected"),
    [
        ({}, None, "the cluster has no default class (there: none); make one first"),
        ({"fast": {}, "slow": {}}, None, "the cluster has no default class (there: fast, slow); name one of these"),
        ({"fast": {"default": True}}, "fats", "the cluster has no class 'fats' (there: fast); name one of these"),
    ],
)
def test_a_class_that_would_make_no_volume_is_refused(
    classes: dict[str, dict[str, bool]], named: str | None, expected: str
) -> None:
    config = {} if named is None else {"storage": {"storage_class": named}}
    assert refusals(There(classes=classes), **config) == [f"storage.storage_class: {expected}"]


def test_a_class_that_is_there_and_a_default_one_will_do() -> None:
    require_same(settings(), There().find)
    require_same(settings(storage={"storage_class": "fast"}), There(classes={"fast": {}}).find)


def test_nobody_asks_for_a_class_where_all_volumes_are_there_or_brought() -> None:
    require_same(settings(), There(LAPTOP, classes={}).find)
    brought = settings(
        kafka={"external": "broker.example:9092"},
        object_store={"external": {"endpoint": "https://s3.example", "credentials_secret": "vault/s3"}},
        result_store={"enabled": False},
    )
    require_same(brought, There(classes={}).find)


@pytest.mark.parametrize(
    ("section", "name"), [("kafka", "kafka"), ("object_store", "minio"), ("result_store", "postgres")]
)
def test_another_size_is_refused_by_name(section: str, name: str) -> None:
    claim, size = f"data-{name}-0", LAPTOP[f"data-{name}-0"]
    begin = f"{section}.storage_size: {claim} is there with {size}, got"
    (line,) = refusals(There(LAPTOP), **{section: {"storage_size": "9Gi"}})
    assert line.startswith(f"{begin} 9Gi; set it back, or back up")
    for classes in ({"standard": {"default": True}}, GROWS):
        (line,) = refusals(There(LAPTOP, classes=classes), **{section: {"storage_size": "512Mi"}})
        assert line.startswith(f"{begin} 512Mi; a volume cannot shrink: set it back, or back up")


def test_where_the_class_lets_volumes_grow_the_command_is_named_for_each() -> None:
    three = {f"data-kafka-{number}": "2Gi" for number in range(3)} | LAPTOP | {"data-kafka-0": "9Gi"}
    lines = refusals(There(three, classes=GROWS), profile="brokers", kafka={"storage_size": "9Gi"})
    assert [line.partition(" patch ")[2].partition(", then")[0] for line in lines] == [
        f"""pvc data-kafka-{number} -p '{{"spec":{{"resources":{{"requests":{{"storage":"9Gi"}}}}}}}}'"""
        for number in (1, 2)
    ]


def test_volumes_that_were_let_grow_are_what_is_wanted() -> None:
    require_same(settings(kafka={"storage_size": "9Gi"}), There(LAPTOP | {"data-kafka-0": "9216Mi"}).find)


def test_another_class_is_refused_for_each_volume() -> None:
    classes = {"standard": {"default": True}, "fast": {}}
    lines = refusals(There(LAPTOP, classes=classes), storage={"storage_class": "fast"})
    assert [line.split()[1] for line in lines] == ["data-kafka-0", "data-minio-0", "data-postgres-0"]
    fast = {name: f"{size} fast" for name, size in LAPTOP.items()}
    require_same(settings(storage={"storage_class": "fast"}), There(fast, classes=classes).find)


def test_a_claim_that_waits_for_its_class_may_be_made_anew() -> None:
    """Nothing was ever written: it was asked for with a class that makes no volume, say."""
    there = There({"data-kafka-0": "4Gi fats"}, unbound=frozenset({"data-kafka-0"}))
    (line,) = refusals(there, storage={"storage_class": "standard"})
    assert "kubectl -n effectively-once delete statefulset/kafka pvc/data-kafka-0, then pulumi up --refresh" in line
    assert "back up" not in line


def test_the_same_amount_written_otherwise_is_the_same() -> None:
    assert amount("8Gi") == amount("8192Mi")
    assert amount("1.5Gi") == amount("1536Mi")
    assert len({amount(text) for text in ("8", "8k", "8Ki", "8M", "8Mi", "8G", "8Gi", "8T", "8Ti", "8m")}) == 10
