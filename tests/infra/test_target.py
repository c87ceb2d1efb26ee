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


def test_our_cluster_needs_no_word(kubeconfig: Path) -> None:
    assert choose(settings(), environment(kubeconfig, OURS)) == OURS


def test_another_cluster_is_refused_with_the_setting_that_confirms_it(kubeconfig: Path) -> None:
    with pytest.raises(SettingsError, match=r"^confirm_context: .*'prod-eu'.*config set confirm_context prod-eu"):
        choose(settings(), environment(kubeconfig, THEIRS))


def test_a_confirmed_cluster_is_taken(kubeconfig: Path) -> None:
    assert choose(settings(confirm_context=THEIRS), environment(kubeconfig, THEIRS)) == THEIRS


def test_a_confirmation_is_for_the_context_it_names(kubeconfig: Path) -> None:
    with pytest.raises(SettingsError, match="prod-eu"):
        choose(settings(confirm_context="prod-us"), environment(kubeconfig, THEIRS))


def test_a_configured_context_wins_and_is_looked_at_in_the_same_way(kubeconfig: Path) -> None:
    assert choose(settings(context=OURS), environment(kubeconfig, THEIRS)) == OURS
    with pytest.raises(SettingsError, match="confirm_context"):
        choose(settings(context=THEIRS), environment(kubeconfig, OURS))


@pytest.mark.parametrize("current", [None, "gone"])
def test_a_context_that_is_not_there_is_refused_with_those_that_are(kubeconfig: Path, current: str | None) -> None:
    with pytest.raises(SettingsError, match=f"context: .*allowed: {OURS}, {THEIRS}"):
        choose(settings(), environment(kubeconfig, current))


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
