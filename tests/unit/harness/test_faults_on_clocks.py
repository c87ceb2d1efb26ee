"""The clock of drivers that is stepped: for processes started with it, from the strike until it is healed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from infra.embedded import spark
from infra.embedded.process import identity
from infra.embedded.spark import SparkHome
from infra.embedded.stack import Endpoints
from infra.toolchain.faketime import format_offset
from tests.harness.adapters.driver_clock import DriverClock, with_clock
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.clock import SteppedClock
from tests.harness.history import read_history
from tests.unit.harness.sleepers import SLEEP, Home, soon
from tests.unit.harness.struck import World, lend

REFUSED = "print('AccessError: this clock is ahead'); raise SystemExit(77)"


class Clocked(World):
    """Drivers that are sleepers, and a file that announcements are written to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.watch.start()
        self.home = Home(folder, [SLEEP])
        self.drivers = SupervisedDrivers(self.home, "m", self.watch.path, history=self.history)  # type: ignore[arg-type]
        self.offset = folder / "clock" / "offset"
        self.clock = DriverClock(folder / "library", self.offset)
        self.drivers.start("driver", folder / "settings.json")
        soon("the driver", lambda: (folder / "driver-1.log").read_text() == "up\n")

    @property
    def pid(self) -> int:
        assert isinstance(self.drivers.driver, int)
        return self.drivers.driver

    def fault(self, step_s: int = 3600, seconds: float = 0.1, longest_s: float = 0.4) -> SteppedClock:
        return SteppedClock(
            self.drivers, self.watch, self.clock, step_s, seconds=seconds, longest_s=longest_s, healing=self.healing
        )

    def says(self, off_s: int = 0, **fields: Any) -> None:
        before = len(self.watch.seen)
        event = {"t": time.time_ns() // 1_000_000 + off_s * 1000, "event": "epoch", "epoch": 3, **fields}
        with self.watch.path.open("ab", buffering=0) as file:
            file.write(orjson.dumps(event) + b"\n")
        soon("it to be read", lambda: len(self.watch.seen) > before)

    def close(self) -> None:
        self.drivers.end()
        self.watch.stop()
        super().close()


world = lend(Clocked)


def test_the_clock_is_wrong_from_the_strike_until_it_is_healed_and_the_driver_goes_on(world: Clocked) -> None:
    assert world.offset.read_text() == format_offset(0)
    fault = world.fault(-120)
    ((who, at),) = fault.strike({})
    assert who == identity(world.pid)
    assert world.offset.read_text() == format_offset(-120)
    assert world.healing.owed == ["set the drivers' clock right (-120 s)"]
    assert world.drivers.under == "a clock off by -120 s"
    assert not fault.landed()
    world.says(-120, state="published")
    assert world.watch.seen[-1]["t"] >= at
    (told,) = (one for one in read_history(world.history.path) if one["event"] == "epoch")
    assert told["told_t"] - told["t"] == pytest.approx(-120_000, abs=30_000), "the history keeps what it said"
    assert fault.landed()
    fault.endure()
    assert fault.after() == [], "nothing was published by the right clock yet"
    fault.heal()
    fault.heal()
    assert world.offset.read_text() == format_offset(0)
    assert world.drivers.under is None
    assert fault.after() == []
    world.says(state="published")
    assert fault.after() == [who]
    assert fault.evidence() == {"clock_step_s": -120}
    assert world.healing.owed == []


def test_a_driver_that_ends_of_it_is_followed_and_its_last_words_are_evidence(world: Clocked) -> None:
    world.home.codes[:] = [SLEEP, REFUSED, SLEEP]
    fault = world.fault()
    ((who, _),) = fault.strike({})
    os.kill(world.pid, signal.SIGTERM)
    soon("the second one to end, too", lambda: len(world.drivers.last_words) == 2)
    soon("the third", lambda: len(world.home.started) == 3 and identity(world.pid))
    assert fault.landed()
    fault.heal()
    world.says(state="published")
    assert fault.after() == [], "that it took over is not told"
    world.says(event="driver", state="started", pid=world.pid)
    assert fault.after() == [identity(world.pid)] != [who]
    assert fault.evidence() == {"clock_step_s": 3600, "refusal": "AccessError: this clock is ahead"}


def test_a_driver_that_ends_of_something_else_shows_no_step(world: Clocked) -> None:
    world.drivers.last_words[1] = "an earlier one, of its clock"
    fault = world.fault()
    fault.strike({})
    os.kill(world.pid, signal.SIGTERM)
    soon("its end", lambda: len(world.drivers.last_words) == 2)
    assert not fault.landed()
    assert fault.evidence()["refusal"] == "up"


def test_it_lasts_longer_until_it_shows_and_no_longer_than_its_bound(world: Clocked) -> None:
    fault = world.fault(seconds=0.1, longest_s=1.0)
    fault.strike({})
    began = time.monotonic()
    fault.endure()
    assert time.monotonic() - began >= 1.0
    world.says(3600, state="declared")
    began = time.monotonic()
    fault.endure()
    assert time.monotonic() - began < 1.0


def test_a_run_that_ends_meanwhile_sets_it_right(world: Clocked) -> None:
    fault = world.fault(seconds=600.0, longest_s=600.0)
    fault.strike({})
    world.ended.set()
    fault.endure()
    world.healing.close(torn_down=True)
    assert world.said == ["✓ healed at the end of the run: set the drivers' clock right (+3600 s)"]
    assert world.offset.read_text() == format_offset(0)


def test_without_a_driver_it_misses_and_nothing_is_stepped(world: Clocked) -> None:
    world.drivers.kill()
    with pytest.raises(NoProcessError):
        world.fault().strike({})
    assert world.offset.read_text() == format_offset(0)
    assert world.healing.owed == []


def test_drivers_go_by_the_clock_and_executors_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[dict[str, str], dict[str, str]]] = []

    def child(name: str, argv: list[Any], log: Path, *, cwd: Path, env: dict[str, str]) -> None:
        started.append((env, orjson.loads(env["EFFECTIVELY_ONCE_SPARK_CONF"])))
        raise InterruptedError

    monkeypatch.setattr(spark, "Child", child)
    plain = _home(tmp_path)
    clock = DriverClock(Path("/lib/fake.so"), tmp_path / "offset")
    for number, home in enumerate((plain, with_clock(plain, clock), with_clock(plain, None))):
        with pytest.raises(InterruptedError):
            home.start(f"driver-{number}", "m", [], {"OWN": "1"})
    (_, before), (env, conf), (without, _) = started
    assert "LD_PRELOAD" not in without
    assert env["LD_PRELOAD"].startswith("/lib/fake.so")
    assert env["FAKETIME_TIMESTAMP_FILE"] == str(tmp_path / "offset")
    assert env["OWN"] == "1"
    assert conf == {**before, "spark.executorEnv.LD_PRELOAD": ""}


def _home(folder: Path) -> SparkHome:
    wheel = SimpleNamespace(sha256="0", installed=folder)
    toolchain: Any = SimpleNamespace(
        jvm_jar=folder, spark_jars=folder, wheel=wheel, java=folder / "bin" / "java", spark_home=folder
    )
    endpoints = Endpoints("broker:1", "http://store:2", "key", s3_secret_key="none", s3_bucket="bucket")
    return SparkHome(toolchain, endpoints, folder, conf={"spark.own": "1"})
