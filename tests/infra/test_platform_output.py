"""What the Pulumi program tells of a deployment is what the commands read: the two are of one version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import assembly
from infra.cluster.platform import parse_platform
from tests.infra.platform import settings

OWN = "registry.example/clicks@sha256:" + "a" * 64


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"pipelines": {"clicks": {"topic": "clicks", "job": "clicks", "image": OWN, "result_store": True}}},
        {"images": {"job-clicks": OWN}, "pipelines": {"clicks": {"topic": "clicks", "job": "clicks"}}},
    ],
    ids=["as it is", "an image of its own", "an image with a wheel more"],
)
def test_the_output_can_be_read_by_the_commands(config: dict[str, Any]) -> None:
    wanted = settings(**config)
    read = parse_platform(json.dumps({"platform": assembly.platform(wanted)}))
    assert set(read.pipelines) == set(wanted.pipelines)
    assert read.images["spark"] == wanted.images.spark
    assert {name: OWN for name in read.images if name.startswith("job-")} == {
        f"job-{name}": reference for name, reference in wanted.images.jobs.items()
    }
