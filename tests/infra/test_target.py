"""A kubeconfig that points at a cluster of somebody else is not deployed into by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from infra.components.target import choose
from infra.settings import SettingsError
from tests.infra.platform import settings

OURS, THEIRS = "kind-effectively-once", "prod-eu"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "config"


def environment(kubeconfig: Path, current: str | None) -> dict[str, str]:
    """Write a kubeconfig with both contexts and return the environment that names it."""
    kubeconfig.write_text(
        yaml.safe_dump({"contexts": [{"name": OURS}, {"name": THEIRS}], "current-context": current or ""})
    )
    return {"KUBECONFIG": str(kubeconfig)}


@pytest.mark.parametrize(
    ("config", "current", "taken"),
    [({}, OURS, OURS), ({"confirm_context": THEIRS}, THEIRS, THEIRS), ({"context": OURS}, THEIRS, OURS)],
    ids=["ours", "a confirmed one", "a configured one"],
)
def test_our_cluster_and_one_that_is_confirmed_are_taken(
    kubeconfig: Path, config: dict[str, str], current: str, taken: str
) -> None:
    assert choose(settings(**config), environment(kubeconfig, current)) == taken


@pytest.mark.parametrize(
    ("config", "current", "says"),
    [
        ({}, THEIRS, r"^confirm_context: .*'prod-eu'.*config set confirm_context prod-eu"),
        ({"confirm_context": "prod-us"}, THEIRS, "prod-eu"),
        ({"context": THEIRS}, OURS, "confirm_context"),
        ({}, None, f"context: .*allowed: {OURS}, {THEIRS}"),
        ({}, "gone", f"context: .*allowed: {OURS}, {THEIRS}"),
    ],
    ids=["another one", "another than is confirmed", "a configured one", "none", "one that is not there"],
)
def test_another_cluster_is_refused_with_the_setting_that_confirms_it(
    kubeconfig: Path, config: dict[str, str], current: str | None, says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        choose(settings(**config), environment(kubeconfig, current))


@pytest.mark.parametrize("text", [None, ": not yaml: [", "[]"])
def test_an_unusable_kubeconfig_is_named(kubeconfig: Path, text: str | None) -> None:
    if text is not None:
        kubeconfig.write_text(text)
    with pytest.raises(SettingsError, match=f"context: .*{kubeconfig}"):
        choose(settings(), {"KUBECONFIG": str(kubeconfig)})


def test_several_kubeconfigs_are_refused(kubeconfig: Path) -> None:
    with pytest.raises(SettingsError, match="KUBECONFIG: one file"):
        choose(settings(), {"KUBECONFIG": f"{kubeconfig}:{kubeconfig}2"})


def test_without_the_variable_the_usual_file_is_read(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    environment(tmp_path / ".kube" / "config", OURS)
    assert choose(settings(), {"HOME": str(tmp_path)}) == OURS
