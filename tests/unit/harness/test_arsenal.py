"""What a place can do: every sort of the campaign on the embedded stack, executors only elsewhere."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from effectively_once import session
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.arsenal import HEARTBEATS, NETWORK_TIMEOUT_S, EmbeddedArsenal, ExecutorArsenal, Lengths
from tests.harness.faults.campaign import SAID, SIGNALS
from tests.harness.history import History
from tests.harness.mixture import SORTS
from tests.harness.schedule import Strike
from tests.harness.suites import SUITES
from tests.unit.harness.sleepers import Home, Server, state_of

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "chaos.md"


def arsenal(folder: Path, said: list[str], server: Server) -> EmbeddedArsenal:
    watch = Watch(folder / "events.jsonl", History(folder / "history.jsonl"))
    drivers = SupervisedDrivers(Home(folder), "m", watch.path)  # type: ignore[arg-type]
    return EmbeddedArsenal(drivers, watch, server, server, said.append)


@pytest.mark.parametrize("name", SORTS)
def test_the_embedded_stack_has_every_sort(tmp_path: Path, name: str) -> None:
    place, strike = arsenal(tmp_path, [], Server(tmp_path)), SORTS[name]
    assert place.fault(strike) is not place.fault(strike), "every try has a fault of its own"
    assert strike.kind in SAID
    assert strike.kind in SIGNALS


def test_a_sort_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pod_delete_now of executor"):
        arsenal(tmp_path, [], Server(tmp_path)).fault(Strike("pod_delete_now"))


def test_elsewhere_there_are_executors_only(tmp_path: Path) -> None:
    place = ExecutorArsenal(arsenal(tmp_path, [], Server(tmp_path)).drivers)
    for suite in SUITES.values():
        for strike in (*suite.strikes, *suite.seldom):
            place.fault(strike)
    with pytest.raises(ValueError, match="driver"):
        place.fault(SORTS["zombie"])


def test_closing_continues_what_stands_still_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    server = Server(tmp_path)
    server.restart()
    place = arsenal(tmp_path, said, server)
    place.fault(SORTS["broker-stop"]).strike({})
    assert state_of(server.pid) == psutil.STATUS_STOPPED
    place.close()
    place.close()
    assert state_of(server.pid) != psutil.STATUS_STOPPED
    assert said == [f"✓ healed at the end of the run: continue test server {server.pid}"]
    os.kill(server.pid, signal.SIGKILL)


def test_stops_are_longer_than_what_they_are_to_outlast() -> None:
    """An executor's stop outlasts the time-out of heartbeats; a worker's hang the idle time-out of the product."""
    lengths = Lengths()
    interval_s = int(HEARTBEATS["spark.network.timeoutInterval"].rstrip("s"))
    assert lengths.executor_stop_s > NETWORK_TIMEOUT_S + interval_s
    assert lengths.worker_hang_s > int(session.REQUIRED["spark.sql.execution.pyspark.udf.idleTimeoutSeconds"])
    assert not set(HEARTBEATS) & set(session.REQUIRED), "these settings are refused to a place"


def test_the_guide_lists_every_sort() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)` \|", GUIDE.read_text(), re.MULTILINE)) == set(SORTS)
