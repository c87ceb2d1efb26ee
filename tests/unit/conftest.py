"""For every suite below: no deadline per example, a loaded machine is not a failure; and no test finds a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from infra.cluster import engine
from tests.depth import examples

settings.register_profile("no_deadline", deadline=None, max_examples=examples(100))
settings.load_profile("no_deadline")


@pytest.fixture(scope="session", autouse=True)
def _no_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the cluster of this machine: whatever a test goes on to, without a guard of ours, strikes nothing."""
    nowhere = tmp_path_factory.mktemp("no-cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EFFECTIVELY_ONCE_STATE", raising=False)
        patch.setenv("XDG_STATE_HOME", str(nowhere))
        patch.setenv("KUBECONFIG", str(nowhere / "kubeconfig"))
        # By it the machine's lock is named.
        patch.setattr(engine, "RUN", nowhere)
        yield
