"""An update is done when a pipeline works: a driver that runs, and whose query never gets to an end, does not pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest
from prometheus_client import generate_latest

from effectively_once.driver.control import State, Wish, stopped_line
from effectively_once.driver.metrics import Metrics
from infra.cluster.api import ApiError, Lines
from infra.operate.ready import ALIVE, LIMIT_S, PAUSED, UNREAD, NotReadyError, Wait
from tests.infra.platform import crds, deploy, settings

PODS = "/api/v1/namespaces/pipelines/pods"


def scrape(unread: int | None = None, *, alive: bool = False, paused: bool = False, shown: bool = False) -> str:
    """Return what a driver of the product tells Prometheus; `unread` None is for one that does not read yet."""
    metrics = Metrics("a")
    if unread is not None:
        metrics.show_unread("events", {"0": (0, 0.0), "1": (unread, 1.0)})
        metrics.show_input(1.0, None)
    if alive:
        metrics.show_life()
    metrics.show_paused(paused)
    if shown:
        metrics._published_at.set(1.79e9)
    return generate_latest(metrics.registry).decode()


def scrape_standby() -> str:
    """Return what a driver of the product tells Prometheus while it waits."""
    metrics = Metrics("a", standby=True)
    metrics.show_standby()
    return generate_latest(metrics.registry).decode()


FRESH, READS, IDLE, SHOWN = scrape(), scrape(0), scrape(0, alive=True), scrape(0, alive=True, shown=True)
Look = dict[str, Any]


def driver(uid: str, metrics: str | None = None, phase: str = "Running", log: str = "", **metadata: str) -> Look:
    return {
        "pod": {"metadata": {"name": "a-driver", "uid": uid, **metadata}, "status": {"phase": phase}},
        "metrics": metrics,
        "log": log,
    }


class Cluster:
    """Goes through its looks, one each time that the wait sleeps, and stays at the last."""

    def __init__(self, *looks: Look | None, suspended: bool = False) -> None:
        self.looks, self.at_s, self.index, self.suspended = looks, 0.0, 0, suspended

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds
        self.index = min(self.index + 1, len(self.looks) - 1)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if path == "/apis/sparkoperator.k8s.io/v1beta2/namespaces/pipelines/sparkapplications/a":
            return {"metadata": {"name": "a"}, "spec": {"suspend": self.suspended}}
        assert (path, query) == (PODS, {"labelSelector": "effectively-once/pipeline=a,spark-role=driver"})
        look = self.looks[self.index]
        return {"items": [] if look is None else [look["pod"]]}

    def text(self, path: str, **query: str) -> str:
        look = self.looks[self.index]
        assert look is not None
        told: str | None = look["log"] if path == f"{PODS}/a-driver/log" else look["metrics"]
        if told is None:
            assert path == f"{PODS}/a-driver:9404/proxy/metrics"
            raise ApiError(503, "connection refused", path)
        return told

    def follow(self, path: str, **query: str) -> Lines:
        raise NotImplementedError


def wait(*looks: Look | None) -> tuple[str, float]:
    """Return by what a pipeline is known to work, and after which time."""
    cluster = Cluster(*looks)
    found = Wait(cluster, "pipelines", "a", lambda: cluster.at_s, cluster.sleep).until_ready()
    return found, cluster.at_s


def test_an_epoch_of_the_driver_is_the_sign() -> None:
    looks = (
        None,
        driver("1", phase="Pending"),
        driver("1"),
        driver("1", FRESH),
        driver("1", READS),
        driver("1", SHOWN),
    )
    found, took_s = wait(*looks)
    assert found == "its driver has published an epoch"
    assert took_s == 10


def test_a_driver_whose_query_has_looked_and_found_nothing_is_ready_at_once() -> None:
    looks = driver("1", READS), driver("1", READS), driver("1", IDLE)
    assert wait(*looks) == ("its driver has found nothing to read", 4)


def test_a_driver_that_has_not_counted_its_input_yet_is_not_idle() -> None:
    """Nothing unread is what its metrics begin with, too."""
    early = driver("1", scrape(alive=True))
    assert wait(early, early, driver("1", IDLE))[1] == 4


class Two(Cluster):
    """With a second driver, which stays as it is."""

    def __init__(self, beside: Look, *looks: Look | None) -> None:
        super().__init__(*looks)
        self._beside = {**beside, "pod": {**beside["pod"], "metadata": {"name": "b-driver", "uid": "b"}}}

    def get(self, path: str, **query: str) -> dict[str, Any]:
        found = super().get(path, **query)
        return {"items": [self._beside["pod"], *found["items"]]} if path == PODS else found

    def text(self, path: str, **query: str) -> str:
        return str(self._beside["metrics"]) if path.startswith(f"{PODS}/b-driver") else super().text(path, **query)

    def wait(self) -> tuple[str, float]:
        return Wait(self, "pipelines", "a", lambda: self.at_s, self.sleep).until_ready(), self.at_s


def test_a_standby_is_no_trouble_where_the_other_driver_works() -> None:
    standby = driver("b", scrape_standby())
    assert Two(standby, driver("1", FRESH), driver("1", SHOWN)).wait() == ("its driver has published an epoch", 2)
    assert Two(standby, driver("1", IDLE)).wait() == ("its driver has found nothing to read", 0)


def test_two_that_wait_for_each_other_are_not_ready() -> None:
    """Of a driver at work nothing would be waited for: it has to be seen."""
    standby = driver("b", scrape_standby())
    with pytest.raises(NotReadyError, match="last: its driver waits as a standby, and no other one was seen"):
        Two(standby, standby).wait()


def test_a_standby_that_runs_has_not_ended() -> None:
    """Three drivers that end make an update fail; here two did, before the third worked."""
    looks = [driver(uid, FRESH) for uid in "123"]
    assert Two(driver("b", scrape_standby()), *looks, driver("3", SHOWN)).wait()[1] == 6


def refusal(*looks: Look) -> str:
    """Return why a pipeline is not ready when the time is up."""
    cluster = Cluster(*looks)
    with pytest.raises(NotReadyError) as refused:
        Wait(cluster, "pipelines", "a", lambda: cluster.at_s, cluster.sleep).until_ready()
    assert cluster.at_s > LIMIT_S
    return str(refused.value)


def test_a_driver_whose_query_ends_no_trigger_is_not_ready() -> None:
    """As where its executors never come."""
    assert "no trigger of its query has ended" in refusal(driver("1", READS))


def test_a_driver_that_stands_still_before_a_full_topic_is_not_idle() -> None:
    full = driver("1", scrape(7200, alive=True))
    assert "last: its driver has published nothing, and 7,200 offsets of its input are unread" in refusal(full)
    assert wait(full, driver("1", IDLE))[1] == 2


def test_one_that_is_paused_may_stand_still_before_a_full_topic() -> None:
    assert wait(driver("1", scrape(7200, paused=True))) == ("it is paused", 0)


def test_a_driver_of_before_that_does_not_say_whether_it_lives_is_ready_when_it_reads() -> None:
    def older(metrics: str) -> str:
        return "\n".join(line for line in metrics.splitlines() if not {*line.split("{")} & {ALIVE, PAUSED, UNREAD})

    found, took_s = wait(driver("1", older(FRESH)), driver("1", older(READS)))
    assert (found, took_s) == ("its driver asks for its input; its version says no more", 2)


def test_a_driver_that_ends_before_its_query_has_ended_a_trigger_does_not_pass() -> None:
    """The operator starts it again and again; what was said last is told."""
    log = "starting\nChainError: the wheel is another one\n  Roll back\n"
    one = [driver("1", READS)] * 20 + [driver("1", phase="Failed", log=log)] * 2
    looks = [
        {**look, "pod": {**look["pod"], "metadata": {"name": "a-driver", "uid": uid}}} for uid in "1234" for look in one
    ]
    with pytest.raises(
        NotReadyError, match=r"pipeline a is not ready: 3 drivers ended.*ChainError: the wheel is another"
    ):
        wait(*looks)


def test_of_drivers_that_are_seen_while_they_run_alone_the_error_is_told() -> None:
    """The operator removes who has failed at once."""
    log = "starting\nSettingsError: lateness_ms was 1 when this pipeline began and is 2 now\n"
    looks = [driver(uid, log=log) for uid in "123"]
    with pytest.raises(NotReadyError, match=r"3 drivers ended.*last: SettingsError: lateness_ms was 1"):
        wait(*looks, driver("4"))


def test_a_driver_that_never_gets_to_its_input_is_not_ready_when_the_time_is_up() -> None:
    said = refusal(driver("1", FRESH))
    assert "no epoch within 600 s; last: its driver has not taken the chain over" in said


def test_without_a_driver_it_is_not_ready() -> None:
    with pytest.raises(NotReadyError, match="last: no driver was seen"):
        wait(None)


def test_nobody_waits_for_a_driver_that_somebody_suspended() -> None:
    cluster = Cluster(None, suspended=True)
    found = Wait(cluster, "pipelines", "a", lambda: cluster.at_s, cluster.sleep).until_ready()
    assert (found, cluster.at_s) == ("it is suspended, which its settings do not ask for", 0)


def test_a_pipeline_that_was_drained_is_what_an_operator_wants() -> None:
    wish = Wish.make(State.DRAINING, {"events": {"0": (0, 5)}})
    said = driver("1", phase="Succeeded", log=f"starting\n{stopped_line(wish)}\n")
    assert wait(driver("1", READS), said)[0] == "it is drained"


def test_a_driver_that_is_being_deleted_says_nothing_of_the_next() -> None:
    going = driver("1", SHOWN, deletionTimestamp="2026-11-20T00:00:00Z")
    assert wait(going, going, None, driver("2", SHOWN))[1] == 6


def test_where_pods_cannot_be_asked_a_driver_that_goes_on_running_is_believed() -> None:
    found, took_s = wait(driver("1"))
    assert "cannot be asked" in found
    assert took_s > 120


def test_the_program_waits_for_each_declared_pipeline_that_is_to_run(tmp_path: Path) -> None:
    asked: list[str] = []
    wanted = settings(
        pipelines={
            "user_counts": {},
            "audit": {"job": "own.audit", "suspend": True},
            "fraud": {"module": "effectively_once_jobs.fraud"},
        }
    )
    deploy(wanted, crds(tmp_path), works=asked.append)
    assert asked == ["user-counts"]


def test_one_that_does_not_work_fails_the_update(tmp_path: Path) -> None:
    def works(name: str) -> None:
        raise pulumi.RunError(f"pipeline {name} is not ready")

    with pytest.raises(pulumi.RunError, match="pipeline user-counts is not ready"):
        deploy(settings(), crds(tmp_path), works=works)
