"""For every suite below: no deadline per example, a loaded machine is not a failure; and no cluster of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")


@pytest.fixture(scope="session", autouse=True)
def _no_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A test that patches too little would play on the cluster that somebody works with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EFFECTIVELY_ONCE_STATE", str(tmp_path_factory.mktemp("state")))
        patch.delenv("KUBECONFIG", raising=False)
        yield
