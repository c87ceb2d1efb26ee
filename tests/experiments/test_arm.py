"""What a job is done with, by its announcements; and records that come when they are due."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.experiments.arm import count_done
from tests.experiments.compare.plan import Plan
from tests.experiments.pace import pace_out


def test_an_epoch_that_is_repeated_has_read_its_records_once() -> None:
    epochs: list[dict[str, Any]] = [
        {"event": "driver", "state": "started"},
        {"event": "epoch", "epoch": 0, "state": "declared"},
        {"event": "epoch", "epoch": 0, "state": "published", "in": 5},
        {"event": "epoch", "epoch": 0, "state": "published", "in": 5},
        {"event": "epoch", "epoch": 1, "state": "published", "in": 2},
    ]
    assert count_done(epochs) == 7
    assert count_done([]) == 0  # before anything is announced


def test_offsets_that_were_reached_count_once_whoever_tells_them() -> None:
    told: list[dict[str, Any]] = [
        {"event": "reading", "reached": 0},
        {"event": "epoch", "epoch": 0, "state": "published", "reached": 9, "pending": 4},
        {"event": "epoch", "epoch": 1, "state": "published", "reached": 20, "pending": 0},
        {"event": "reading", "reached": 20},
    ]
    assert count_done(told) == 20


def test_records_come_at_their_pace_and_end_when_it_is_to_stop() -> None:
    records, stop = list(Plan(7).stream())[:21], threading.Event()
    began = time.monotonic()
    assert list(pace_out(records, 100, stop)) == records
    assert time.monotonic() - began >= 0.2
    stop.set()
    assert len(list(pace_out(records, 100, stop))) == 1
