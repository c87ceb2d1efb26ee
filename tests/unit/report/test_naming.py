"""Faults have readable names on the page, also those that it has never heard of."""

from __future__ import annotations

import pytest

from tests.harness.report import naming


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"kind": "sigkill", "signal": "SIGKILL", "target": "executor"}, "executor: SIGKILL"),
        ({"kind": "pod_delete_now", "target": "driver"}, "driver: pod deleted, no grace"),
        ({"kind": "sigstop", "target": "object store", "stopped_s": 12.04}, "object store: SIGSTOP, for 12.0\u202fs"),
        ({"kind": "sigstop", "target": "broker"}, "broker: SIGSTOP, later SIGCONT"),
        ({"kind": "node_restart", "target": "node"}, "node: restarted"),
        (
            {"kind": "cut", "target": "executor and broker", "cut_s": 12.04, "direction": "both"},
            "executor and broker: packets dropped both ways for 12.0\u202fs",
        ),
        (
            {"kind": "cut", "target": "driver and API server", "cut_s": 3, "direction": "in"},
            "driver and API server: packets dropped on the way to the first for 3.0\u202fs",
        ),
        ({"kind": "cut", "target": "executor and broker"}, "executor and broker: packets dropped"),
        ({"kind": "slow_disk", "target": "broker", "slowed_s": 12.04}, "broker: disk slow for 12.0\u202fs"),
        ({"kind": "slow_disk", "target": "broker", "slowed_s": None}, "broker: disk slow"),
        (
            {"kind": "held_back", "target": "partition", "held_s": 40.02, "kept": 9810},
            "partition: its records late by 40.0\u202fs, 9\u202f810 of them",
        ),
        (
            {"kind": "away", "target": "driver", "planned_s": 12},
            "driver: killed, and none started for 12.0\u202fs",
        ),
        ({"kind": "slow_answers", "target": "object_store"}, "object store: slow answers"),
        ({"kind": "hang", "signal": "SIGSTOP", "target": "broker"}, "broker: hang (SIGSTOP)"),
        ({}, "\N{EM DASH}: \N{EM DASH}"),
    ],
)
def test_a_fault_says_who_and_how(fault: dict[str, object], said: str) -> None:
    assert naming.name_fault(fault) == said


def test_roles_stand_in_one_order_and_unknown_ones_behind() -> None:
    given = ["zookeeper", "node", "broker", "executor", "driver", "arbiter", "python worker"]
    due = ["driver", "executor", "python worker", "broker", "node", "arbiter", "zookeeper"]
    assert sorted(given, key=naming.place) == due
