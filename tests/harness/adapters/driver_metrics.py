"""What a driver tells Prometheus, read where it serves it: of one of this machine a port that it takes by itself."""

from __future__ import annotations

import time
import urllib.request
from http.client import HTTPException

import psutil

from effectively_once.driver.metrics import VARIABLE
from tests.harness.asked import Metric

ANY_PORT = {VARIABLE: "0"}
"""For the environment of drivers: of two that live at once each has its own."""
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - where the product listens; nothing else of a driver does
ANSWER_S = 2.0
EPOCH, RELEASED = "effectively_once_last_epoch", "effectively_once_sources_released"
PUBLISHED_AT = "effectively_once_published_timestamp_seconds"
"""0 until the driver has published: the numbers of epoch and sources are nobody's until then."""


def read_metric(pid: int | None) -> Metric | None:
    """Read how many sources a driver of this machine does not wait for; see `read_metric_at`."""
    port = None if pid is None else _port_of(pid)
    return None if port is None else read_metric_at(port)


def read_metric_at(port: int) -> Metric | None:
    """Read how many sources a driver does not wait for; None where it does not say, or has published nothing yet.

    It is read twice: an epoch that is published between two numbers of one answer gives two answers.

    Args:
        port: of this machine, that leads to the driver's.
    """
    at = time.time_ns() // 1_000_000
    try:
        first, second = _gauges(port), _gauges(port)
    # A connection that leads to no driver ends without an answer.
    except (OSError, ValueError, HTTPException):
        return None
    if first != second or not first.get(PUBLISHED_AT):
        return None
    return Metric(at, int(first[EPOCH]), int(first[RELEASED]))


def _port_of(pid: int) -> int | None:
    try:
        sockets = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return None
    serving = (one for one in sockets if one.status == psutil.CONN_LISTEN and one.laddr.ip in EVERYWHERE)
    return next((one.laddr.port for one in serving), None)


def _gauges(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=ANSWER_S) as answer:
        return gauges_in(answer.read().decode())


def gauges_in(text: str) -> dict[str, float]:
    """Return the numbers that are read here, of a text as Prometheus has it."""
    names = (EPOCH, RELEASED, PUBLISHED_AT)
    words = (line.rpartition(" ") for line in text.splitlines() if line.startswith(names))
    return {series.partition("{")[0]: float(value) for series, _, value in words}
