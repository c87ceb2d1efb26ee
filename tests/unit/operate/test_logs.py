"""`make logs`: several pods as one stream."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from infra.cluster.api import Lines, UnreachableError
from infra.cluster.platform import AccessError
from infra.operate.facts import pods_of
from infra.operate.logs import Merged, Printer, follow_logs
from tests.unit.operate.cluster import PIPELINES, PLATFORM, Cluster, access, application, container, pod, spark

DRIVER, EXECUTOR = "spark-kubernetes-driver", "spark-kubernetes-executor"


def _cluster() -> Cluster:
    cluster = Cluster().ready()
    cluster.logs = {
        ("user-counts-driver", DRIVER, False): (
            "2026-11-20T20:00:01.1Z driver first\n2026-11-20T20:00:01.12Z driver second\n"
        ),
        ("user-counts-exec-1", EXECUTOR, False): "2026-11-20T20:00:01.11Z one\n",
        ("user-counts-exec-2", EXECUTOR, False): "2026-11-20T20:00:02Z two, with [markup]\n",
        ("kafka-0", "kafka", False): "2026-11-20T20:00:00Z broker\n",
    }
    return cluster


def _tail(cluster: Cluster, **wanted: Any) -> tuple[int, str]:
    out = io.StringIO()
    code = follow_logs(access(cluster), out, follow=False, env={}, **wanted)
    return code, out.getvalue()


def test_lines_of_all_pods_are_merged_by_time_with_a_prefix_per_pod() -> None:
    code, text = _tail(_cluster())
    assert code == 0
    assert text.splitlines() == [
        "driver | driver first",
        "exec-1 | one",
        "driver | driver second",
        "exec-2 | two, with [markup]",
    ]


def test_a_component_is_found_in_the_platforms_namespaces() -> None:
    assert _tail(_cluster(), component="kafka") == (0, "kafka-0 | broker\n")


def test_unknown_names_are_refused_with_what_there_is() -> None:
    with pytest.raises(AccessError, match="there is: kafka, minio"):
        _tail(_cluster(), component="zookeeper")
    with pytest.raises(AccessError, match="there is: user_counts"):
        _tail(_cluster(), pipeline="clicks")


@pytest.mark.parametrize("name", ["user_counts", "user-counts"])
def test_a_pipeline_is_found_by_its_name_in_the_settings_and_by_that_of_its_objects(name: str) -> None:
    assert _tail(_cluster(), pipeline=name) == _tail(_cluster())
    assert _tail(_cluster(), pipeline=name)[0] == 0


def test_pipelines_are_told_apart_when_several_are_shown() -> None:
    cluster = _cluster()
    cluster.put(cluster.applications, application(name="other"))
    labels = {"sparkoperator.k8s.io/app-name": "other", "spark-role": "driver"}
    cluster.put_pod(pod("other-driver", PIPELINES, labels, container(DRIVER)))
    cluster.logs["other-driver", DRIVER, False] = "2026-11-20T20:00:00Z hello\n"
    both = {name: {"name": name} for name in ("user-counts", "other")}
    out = io.StringIO()
    follow_logs(access(cluster, pipelines=both), out, follow=False, env={})
    assert out.getvalue().splitlines()[:2] == ["other/driver | hello", "user-counts/driver | driver first"]
    out = io.StringIO()
    follow_logs(access(cluster, pipelines=both), out, pipeline="other", follow=False, env={})
    assert out.getvalue() == "driver | hello\n"


def test_no_pod_is_exit_code_1_and_a_pod_without_a_log_is_said() -> None:
    cluster = _cluster()
    del cluster.logs["user-counts-exec-2", EXECUTOR, False]
    assert "exec-2 | (no log: " in _tail(cluster)[1]
    for name in ("user-counts-driver", "user-counts-exec-1", "user-counts-exec-2"):
        cluster.remove(f"/api/v1/namespaces/{PIPELINES}/pods", name)
    assert _tail(cluster) == (1, "… | no pod has started yet; `make status` says why\n")


def test_a_terminal_gets_one_colour_a_pod_and_a_file_none() -> None:
    out = io.StringIO()
    printer = Printer(out, colour=True)
    for prefix in ("driver", "exec-1", "driver"):
        printer.line(prefix, "x")
    first, second, third = out.getvalue().splitlines()
    assert first == third == "\x1b[36mdriver |\x1b[0m x"
    assert second == "\x1b[33mexec-1 |\x1b[0m x"


class _Growing(Cluster):
    """What was written before, then what a test adds; the list of pods ends the following after some looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.later: dict[str, list[list[str]]] = {}
        self.since: list[tuple[str, str]] = []
        self.closed = threading.Event()
        self._looks = looks

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if path.endswith(f"{PIPELINES}/pods"):
            self._looks -= 1
            if self._looks < 0:
                raise KeyboardInterrupt
        return super().get(path, **query)

    def follow(self, path: str, **query: str) -> Lines:
        name = path.removesuffix("/log").rsplit("/", 1)[-1]
        self.since.append((name, query.get("sinceTime", "")))
        parts = self.later.get(name, [])
        return _Waiting(parts.pop(0) if parts else [], self.closed, ends=bool(parts))


class _Waiting:
    """Some lines; then the end, or silence until it is closed."""

    def __init__(self, lines: list[str], closed: threading.Event, *, ends: bool) -> None:
        self._lines, self._all_closed, self._ends = lines, closed, ends
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[str]:
        yield from self._lines
        if not self._ends:
            self._closed.wait(10)
            self._all_closed.set()

    def close(self) -> None:
        self._closed.set()


def _growing(looks: int) -> _Growing:
    cluster = _Growing(looks)
    cluster.ready()
    for name in ("user-counts-exec-1", "user-counts-exec-2"):
        cluster.remove(f"/api/v1/namespaces/{PIPELINES}/pods", name)
    cluster.logs["user-counts-driver", DRIVER, False] = "2026-11-20T20:00:01.5Z before\n"
    return cluster


def _follow(cluster: Cluster) -> tuple[int, str]:
    out = io.StringIO()
    merged = Merged(cluster, lambda: list(pods_of(cluster, PIPELINES)), Printer(out, colour=False), look_s=0.05)
    return merged.run(10, follow=True), out.getvalue()


def test_following_goes_on_where_the_tail_ended_without_repeating_a_line_and_ctrl_c_ends_it() -> None:
    cluster = _growing(looks=3)
    cluster.later["user-counts-driver"] = [["2026-11-20T20:00:01.5Z before", "2026-11-20T20:00:01.51Z after"]]
    code, text = _follow(cluster)
    assert code == 0
    assert text.splitlines() == ["driver | before", "driver | after"]
    assert cluster.since[0] == ("user-counts-driver", "2026-11-20T20:00:01.5Z")
    assert cluster.closed.is_set(), "the stream was left open"
    assert [one.name for one in threading.enumerate() if one.name.startswith("log of ")] == []


def test_a_stream_that_broke_is_taken_up_again_after_its_last_line() -> None:
    cluster = _growing(looks=5)
    first = ["2026-11-20T20:00:02Z two"]
    second = ["2026-11-20T20:00:02Z two", "2026-11-20T20:00:03Z three"]
    cluster.later["user-counts-driver"] = [first, second]
    _, text = _follow(cluster)
    assert [line.split(" | ")[1] for line in text.splitlines()] == ["before", "two", "three"]
    assert cluster.since[1] == ("user-counts-driver", "2026-11-20T20:00:02Z")


def test_pods_that_start_later_are_followed_from_their_first_line() -> None:
    cluster = _growing(looks=4)
    cluster.later["user-counts-exec-9"] = [["2026-11-20T20:00:09Z new here"]]
    labels = spark("executor", **{"spark-exec-id": "9"})
    pods = f"/api/v1/namespaces/{PIPELINES}/pods"
    waits = pod("user-counts-exec-9", PIPELINES, labels, container(EXECUTOR, ready=False, state={"waiting": {}}))
    runs = pod("user-counts-exec-9", PIPELINES, labels, container(EXECUTOR))
    cluster.put_pod(waits)
    looked = 0

    def select() -> list[Any]:
        nonlocal looked
        looked += 1
        if looked == 3:
            cluster.put(pods, runs)
        return list(pods_of(cluster, PIPELINES))

    out = io.StringIO()
    Merged(cluster, select, Printer(out, colour=False), look_s=0.05).run(10, follow=True)
    assert "exec-9 | new here" in out.getvalue().splitlines()
    assert ("user-counts-exec-9", "") in cluster.since


def test_a_cluster_that_goes_away_ends_it_with_that_error() -> None:
    cluster = _cluster()
    cluster.objects[f"/api/v1/namespaces/{PLATFORM}/pods"] = UnreachableError("the cluster does not answer")
    with pytest.raises(UnreachableError):
        _tail(cluster, component="kafka")
