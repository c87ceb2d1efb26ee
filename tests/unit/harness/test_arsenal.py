"""What a place can do: every sort of the campaign on the embedded stack, executors only elsewhere."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from effectively_once.driver import session
from tests.harness.adapters.disk_probes import Connectable, DatabaseProbe
from tests.harness.adapters.driver_clock import DriverClock
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.events import AROUND_MS, Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.spark_requests import SparkRequests
from tests.harness.adapters.store_link import StoreLink
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.campaigns.suites import SUITES
from tests.harness.cluster_sorts import CLUSTER
from tests.harness.cut_sorts import CUT, EMBEDDED_CUTS
from tests.harness.faults.arsenal import TRANSACTION_TIMEOUT_S, EmbeddedArsenal, ExecutorArsenal, Lengths
from tests.harness.faults.campaign import SAID
from tests.harness.faults.clock import STEPS_S, SteppedClock
from tests.harness.faults.cut import CutLink
from tests.harness.faults.slow_disk import SlowedServer
from tests.harness.faults.slow_disk_arsenal import SlowDisks
from tests.harness.faults.transaction import WhileHeld
from tests.harness.history import History
from tests.harness.lag_sorts import IN_PODS, LAGS
from tests.harness.mixture import CLOCK, EMBEDDED, ERRORS, LATE, LOST, NO_ROOM, SECOND, TAKEN_ID
from tests.harness.platform_sorts import RESULT_STORE
from tests.harness.results import DIRECTIONS
from tests.harness.schedule import Strike
from tests.harness.signals import SIGNALS
from tests.harness.slow_disk_sorts import SERVER_DISKS, SLOW_DISK
from tests.harness.spread import BLOCKS, NETWORK_S, heartbeats
from tests.harness.with_requests import STAGE_CANCEL, TASK_KILL
from tests.unit.harness.sleepers import Home, Server, state_of

WITHOUT_SIGNAL = (SECOND, TAKEN_ID, ERRORS, LATE, LOST, NO_ROOM, CLOCK, TASK_KILL, STAGE_CANCEL, CUT, SLOW_DISK)
DISKS = SERVER_DISKS.values()
NO_DATABASE = cast("Connectable", None)
GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "chaos.md"


def arsenal(folder: Path, said: list[str], server: Server) -> EmbeddedArsenal:
    watch = Watch(folder / "events.jsonl", History(folder / "history.jsonl"))
    drivers = SupervisedDrivers(Home(folder), "m", watch.path)  # type: ignore[arg-type]
    link, hold = StoreLink("127.0.0.1", 1), Hold(folder / "points")
    return EmbeddedArsenal(
        drivers,
        watch,
        server,
        server,
        link,
        hold,
        bootstrap="127.0.0.1:1",
        pipeline="p",
        seed=1,
        say=said.append,
        result_store=server,
        clock=DriverClock(Path("no library"), folder / "clock" / "offset"),
        requests=SparkRequests(folder / "requests"),
        cuts={one.target: TcpLink(one.target) for one in EMBEDDED_CUTS.values()},
        disks=SlowDisks(
            folder / "strace", folder / "strace.log", {one.target: DatabaseProbe(NO_DATABASE) for one in DISKS}
        ),
    )


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_embedded_stack_has_every_sort(tmp_path: Path, name: str) -> None:
    place, strike = arsenal(tmp_path, [], Server(tmp_path)), EMBEDDED[name]
    assert place.fault(strike) is not place.fault(strike), "every try has a fault of its own"
    assert strike.kind in SAID
    assert (strike.kind in SIGNALS) is (strike.kind not in WITHOUT_SIGNAL)


@pytest.mark.parametrize(
    ("field", "nothing", "faults"),
    [
        ("result_store", None, "result store"),
        ("clock", None, "clock_step"),
        ("requests", None, "task_kill|stage_cancel"),
        ("cuts", {}, "cut of"),
        ("disks", None, "slow_disk"),
    ],
)
def test_what_a_place_lacks_has_no_fault_and_everything_else_has(
    tmp_path: Path, field: str, nothing: Any, faults: str
) -> None:
    place = replace(arsenal(tmp_path, [], Server(tmp_path)), **{field: nothing})
    for strike in EMBEDDED.values():
        said = f"{strike.kind} of {strike.target}"
        if re.search(faults, said):
            with pytest.raises(ValueError, match=f"there is no fault {said}"):
                place.fault(strike)
        else:
            place.fault(strike)


def test_every_step_of_a_clock_comes_before_one_comes_twice(tmp_path: Path) -> None:
    """In an order that the seed draws."""
    orders = []
    for seed in (1, 1, 2, 3, 4):
        place = replace(arsenal(tmp_path, [], Server(tmp_path)), seed=seed)
        faults = [place.fault(EMBEDDED["clock-step"]) for _ in range(2 * len(STEPS_S))]
        steps = [one.step_s for one in faults if isinstance(one, SteppedClock)]
        assert sorted(steps[: len(STEPS_S)]) == sorted(STEPS_S)
        assert steps[len(STEPS_S) :] == steps[: len(STEPS_S)]
        orders.append(tuple(steps))
    assert orders[0] == orders[1]
    assert len(set(orders)) > 1


def test_a_result_store_is_cut_off_and_slowed_while_its_transaction_is_held_open(tmp_path: Path) -> None:
    """Announced and committed are a moment apart: nothing would be left to hold back."""
    place = arsenal(tmp_path, [], Server(tmp_path))
    for sorts, kind in ((EMBEDDED_CUTS, CutLink), (SERVER_DISKS, SlowedServer)):
        made = {strike.target: type(place.fault(strike)) for strike in sorts.values()}
        assert {target for target, of in made.items() if of is WhileHeld} == {
            target for target in made if RESULT_STORE in target
        }
        assert {*made.values()} == {kind, WhileHeld}


def test_which_way_is_cut_is_drawn_from_the_seed(tmp_path: Path) -> None:
    """A try that missed may go another way."""
    ways = []
    for seed in (1, 1, 2, 3):
        place = replace(arsenal(tmp_path, [], Server(tmp_path)), seed=seed)
        ways.append(tuple(place.fault(EMBEDDED_CUTS["store-cut"]).evidence()["direction"] for _ in range(20)))
    assert ways[0] == ways[1]
    assert len(set(ways)) == 3
    assert set(ways[0]) == set(DIRECTIONS)


def test_elsewhere_there_are_executors_only_and_pods_are_in_no_embedded_stack(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pod_delete_now of executor"):
        arsenal(tmp_path, [], Server(tmp_path)).fault(Strike("pod_delete_now"))
    place = ExecutorArsenal(arsenal(tmp_path, [], Server(tmp_path)).drivers)
    # One that needs a cluster of several copies is refused elsewhere.
    for suite in (one for one in SUITES.values() if not one.needed):
        for strike in (*suite.strikes, *suite.seldom):
            place.fault(strike)
    with pytest.raises(ValueError, match="driver"):
        place.fault(EMBEDDED["zombie"])


@pytest.mark.parametrize(
    "name",
    [f"{server}-{how}" for server in ("broker", "store") for how in ("kill", "stop", "stall", "cut")]
    + ["store-errors"],
)
def test_a_server_that_is_down_is_missed_and_nothing_is_owed(tmp_path: Path, name: str) -> None:
    place = arsenal(tmp_path, [], Server(tmp_path))
    with pytest.raises(NoProcessError, match="the test server does not run"):
        place.fault(EMBEDDED[name]).strike({})
    assert place.healing.owed == []
    assert place.drivers.under is None


def test_closing_continues_what_stands_still_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    server = Server(tmp_path)
    server.restart()
    place = arsenal(tmp_path, said, server)
    fault = place.fault(EMBEDDED["broker-stop"])
    fault.strike({})
    assert state_of(server.pid) == psutil.STATUS_STOPPED
    place.close()
    began = time.monotonic()
    fault.endure()
    assert time.monotonic() - began < Lengths().broker_stop_s / 2, "what lasts gives up"
    place.close()
    assert state_of(server.pid) != psutil.STATUS_STOPPED
    assert said == [f"✓ healed at the end of the run: continue test server {server.pid}"]
    os.kill(server.pid, signal.SIGKILL)


def test_stops_are_longer_than_what_they_are_to_outlast() -> None:
    """An executor's stop outlasts the time-out of heartbeats; a worker's hang the idle time-out of the product."""
    lengths = Lengths()
    interval_s = int(heartbeats()["spark.network.timeoutInterval"].rstrip("s"))
    assert lengths.executor_stop_s > NETWORK_S + interval_s
    assert lengths.broker_stop_s < TRANSACTION_TIMEOUT_S < lengths.broker_long_stop_s
    assert lengths.worker_hang_s > int(session.REQUIRED["spark.sql.execution.pyspark.udf.idleTimeoutSeconds"])
    assert lengths.clock_s > NETWORK_S + interval_s
    assert min(abs(step_s) for step_s in STEPS_S) * 1000 > 2 * AROUND_MS, "two steps are taken for each other"
    assert not {*heartbeats(), *BLOCKS} & set(session.REQUIRED), "these settings are refused to a place"


def test_the_guide_lists_every_sort() -> None:
    table = GUIDE.read_text().replace("| |", "|  |")
    rows = re.findall(r"^\| (`[a-z`, -]+`) \|.*\| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    there = {name: (embedded, cluster) for names, embedded, cluster in rows for name in re.findall("`(.+?)`", names)}
    assert {name for name, (embedded, _) in there.items() if embedded == "yes"} == {*EMBEDDED, *LAGS}
    assert {name for name, (_, cluster) in there.items() if cluster not in ("", "no")} == {*CLUSTER, *IN_PODS}
