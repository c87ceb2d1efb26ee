"""A drill on a cluster: what is not this project's own on this machine is refused before anything is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cluster.record import Record
from infra.cluster.state import StateDirectory
from infra.errors import RefusedError
from tests.experiments.drill.on_cluster import refuse_others


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    made = StateDirectory(tmp_path)
    Record("ready", "node:1", 1).write(made.record)
    return made


@pytest.mark.parametrize("context", [None, "kind-effectively-once"])
def test_the_cluster_that_make_up_made_is_taken(state: StateDirectory, context: str | None) -> None:
    refuse_others(state, state.kubeconfig, context)


def test_another_cluster_is_refused(state: StateDirectory, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"KUBECONFIG names .*elsewhere"):
        refuse_others(state, tmp_path / "elsewhere", None)
    with pytest.raises(RefusedError, match="context production is not"):
        refuse_others(state, state.kubeconfig, "production")


@pytest.mark.parametrize("record", [None, Record("creating", "node:1", 1)])
def test_a_cluster_of_which_nothing_is_known_is_refused(state: StateDirectory, record: Record | None) -> None:
    state.record.unlink()
    if record is not None:
        record.write(state.record)
    with pytest.raises(RefusedError, match="knows of no cluster"):
        refuse_others(state, state.kubeconfig, None)
