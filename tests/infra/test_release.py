"""What is changed of a chart's objects on their way to the cluster."""

from __future__ import annotations

from typing import Any

import pulumi

from infra.components.release import FORCE, _adjust


def adjusted(kind: str, props: dict[str, Any]) -> pulumi.ResourceTransformResult | None:
    """Return what becomes of one object."""
    return _adjust(
        pulumi.ResourceTransformArgs(
            custom=True, type_=f"kubernetes:{kind}", name="one", props=props, opts=pulumi.ResourceOptions()
        )
    )


def test_an_object_may_take_over_its_fields_and_keeps_its_own_annotations() -> None:
    found = adjusted("apps/v1:Deployment", {"metadata": {"name": "x", "annotations": {"a": "b"}}, "spec": {}})
    assert found is not None
    assert found.props["metadata"] == {"name": "x", "annotations": {"a": "b", FORCE: "true"}}
    assert found.props["spec"] == {}
    assert found.opts.replace_on_changes is None


def test_a_spark_application_is_replaced_the_old_one_first() -> None:
    found = adjusted("sparkoperator.k8s.io/v1beta2:SparkApplication", {"metadata": {"name": "x"}, "spec": {}})
    assert found is not None
    assert found.opts.replace_on_changes == ["spec"]
    assert found.opts.delete_before_replace is True


def test_a_stateful_set_that_is_there_keeps_its_claims() -> None:
    """Replaced, it would take its volumes along."""
    found = adjusted("apps/v1:StatefulSet", {"metadata": {"name": "x"}, "spec": {}})
    assert found is not None
    assert found.opts.ignore_changes == ["spec.volumeClaimTemplates"]
    other = adjusted("apps/v1:Deployment", {"metadata": {"name": "x"}, "spec": {}})
    assert other is not None
    assert other.opts.ignore_changes is None


def test_what_is_no_object_is_left_alone() -> None:
    assert adjusted("helm.sh/v4:Chart", {"chart": "x"}) is None
