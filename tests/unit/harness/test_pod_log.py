"""Pods followed: their states, and the announcements in what they log, each with the pod it came from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.harness.adapters.pod_log import DRIVER, EXECUTOR, PodLog, announcement, driver_name, place, pod_of
from tests.unit.harness.fake_cluster import RUNS, UIDS, FakeReader, ended, pod
from tests.unit.harness.sleepers import soon

STEP = {"t": 5, "event": "step", "epoch": 3, "shard": 0, "sink": None, "step": "ids_decided", "pid": 9, "attempt": 0}
LONG_S = 20.0


def line_of(event: dict[str, Any]) -> str:
    return orjson.dumps(event).decode()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        *((before + line_of(STEP), STEP) for before in ("", "24/11/20 INFO half a line ", '{"event": "a log", ')),
        ("", None),
        ("plain", None),
        ('{"event": "epoch published", "timestamp": "2026"}', None),
        ('{"t":5,"event":"st', None),
        ('{"t":"5","event":"x"}', None),
        ('{"t":5,"event":7}', None),
        (line_of(STEP) + " and more", None),
    ],
)
def test_an_announcement_is_found_in_its_line_and_other_lines_hold_none(
    line: str, found: dict[str, Any] | None
) -> None:
    assert announcement(line) == found


def test_an_announcement_says_its_pod_and_drivers_are_named_by_it() -> None:
    driver = pod_of(pod("uc-1-driver", UIDS["b"], DRIVER, state=RUNS))
    told = place({"t": 1, "event": "epoch", "state": "declared", "epoch": 0, "driver": 7}, driver)
    assert (told["pod"], told["pod_uid"]) == ("uc-1-driver", UIDS["b"])
    assert told["driver"] == driver_name(driver) == "uc-1-driver@00000001"
    assert place({"t": 1, "event": "driver", "state": "started", "pid": 7}, driver)["pid"] == driver_name(driver)
    assert place(STEP, driver)["pid"] == 9


@pytest.mark.parametrize(
    ("told", "runs", "has_ended", "code"),
    [
        (pod("p", UIDS["a"]), False, False, None),
        (pod("p", UIDS["a"], state={"waiting": {"reason": "ContainerCreating"}}), False, False, None),
        (pod("p", UIDS["a"], state=RUNS), True, False, None),
        (pod("p", UIDS["a"], state=RUNS, deleting=True), False, False, None),
        (pod("p", UIDS["a"], state=ended(137)), False, True, 137),
        (pod("p", UIDS["a"], state=ended(0)), False, True, 0),
    ],
)
def test_what_a_pod_object_says(told: dict[str, Any], runs: bool, has_ended: bool, code: int | None) -> None:
    found = pod_of(told)
    assert (found.runs, found.ended, found.exit_code) == (runs, has_ended, code)
    assert found.who == f"p@{UIDS['a']}"


class Followed:
    """A follower on a fake API."""

    def __init__(self, folder: Path) -> None:
        self.reader, self.folder = FakeReader(), folder
        self.log = PodLog(self.reader, "pipelines", "x=y", folder / "work" / "events.jsonl", folder / "logs")

    def start(self) -> None:
        self.log.start()
        assert self.reader.watching.acquire(timeout=LONG_S)

    def events(self) -> list[dict[str, Any]]:
        path = self.folder / "work" / "events.jsonl"
        return [orjson.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    one = Followed(tmp_path)
    yield one
    one.log.stop()


def test_announcements_of_every_pod_reach_the_file_and_all_text_the_logs(followed: Followed) -> None:
    followed.reader.items = [pod("uc-1-driver", UIDS["a"], DRIVER, state=RUNS)]
    followed.start()
    followed.reader.change("ADDED", pod("exec-1", UIDS["b"], state=RUNS))
    for _ in range(2):
        assert followed.reader.opened.acquire(timeout=LONG_S)
    followed.reader.logs["uc-1-driver"][0].queue.put("starting")
    followed.reader.logs["exec-1"][0].queue.put(line_of(STEP))
    soon("it to be followed", lambda: len(followed.events()) == 1)
    assert followed.events() == [{**STEP, "pod": "exec-1", "pod_uid": UIDS["b"]}]
    text = followed.folder / "logs" / "uc-1-driver-00000000.log"
    soon("it to be followed", lambda: text.read_text() == "starting\n")
    soon("it to be followed", lambda: followed.log.last_words(UIDS["a"]) == "starting")


def test_a_log_that_breaks_off_is_gone_on_with_and_nothing_is_told_twice(followed: Followed) -> None:
    followed.reader.items = [pod("exec-1", UIDS["b"], state=RUNS)]
    followed.start()
    for attempt, events in enumerate([[STEP], [STEP, {**STEP, "t": 6}]]):
        assert followed.reader.opened.acquire(timeout=LONG_S)
        lines = followed.reader.logs["exec-1"][attempt]
        for event in events:
            lines.queue.put(line_of(event))
        lines.queue.put(None)
    soon("it to be followed", lambda: len(followed.events()) == 2)
    assert [event["t"] for event in followed.events()] == [5, 6]


def test_the_code_of_a_container_outlives_its_pod(followed: Followed) -> None:
    followed.start()
    followed.reader.change("ADDED", pod("uc-1-driver", UIDS["a"], DRIVER, state=RUNS))
    assert followed.reader.opened.acquire(timeout=LONG_S)
    followed.reader.change("MODIFIED", pod("uc-1-driver", UIDS["a"], DRIVER, state=ended(3), deleting=True))
    followed.reader.change("DELETED", pod("uc-1-driver", UIDS["a"], DRIVER, state=RUNS, deleting=True))
    soon("it to be followed", lambda: (found := followed.log.pod(UIDS["a"])) is not None and not found.present)
    # Only then: a log that ends before its pod is read anew.
    followed.reader.logs["uc-1-driver"][0].queue.put(None)
    found = followed.log.pod(UIDS["a"])
    assert found is not None
    assert found.exit_code == 3
    assert followed.log.wait_ended(UIDS["a"], LONG_S)


def test_pods_that_went_while_nobody_watched_are_noticed(followed: Followed) -> None:
    followed.reader.items = [pod("exec-1", UIDS["b"], state={"waiting": {}})]
    followed.start()
    assert [one.name for one in followed.log.pods(EXECUTOR)] == ["exec-1"]
    followed.reader.items = []
    followed.reader.watches[-1].queue.put(None)
    soon("it to be followed", lambda: not followed.log.pods(EXECUTOR)[0].present)
    assert followed.log.pods(EXECUTOR)[0].ended


def test_a_pod_of_the_same_name_is_another_pod(followed: Followed) -> None:
    followed.reader.items = [pod("uc-1-driver", UIDS["a"], DRIVER, state=ended(137))]
    followed.start()
    followed.reader.change("ADDED", pod("uc-1-driver", UIDS["c"], DRIVER, state={"waiting": {}}))
    soon("it to be followed", lambda: len(followed.log.pods(DRIVER)) == 2)
    assert [one.uid for one in followed.log.pods(DRIVER)] == [UIDS["a"], UIDS["c"]]
    assert not followed.log.wait_ended(UIDS["c"], 0.3), "a wait for one that goes on ends in time"
