"""Settings of Hypothesis for every suite below: a loaded machine is not a failure; and no test finds a cluster."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide the cluster of this machine: whatever a test goes on to, without a guard of ours, strikes nothing."""
    nowhere = tmp_path_factory.getbasetemp() / "no-cluster"
    monkeypatch.delenv("EFFECTIVELY_ONCE_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(nowhere))
    monkeypatch.setenv("KUBECONFIG", str(nowhere / "kubeconfig"))
