"""Stalls are drawn from the seed: every length once before one twice, and half of them while shards read."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.embedded.job import Job
from infra.toolchain.prepare import Toolchain
from tests.harness.campaigns import cluster
from tests.harness.campaigns.chaos import main
from tests.harness.cluster_sorts import CLUSTER
from tests.harness.conditions import LONGEST_S, USUAL, Conditions
from tests.harness.cut_sorts import CUT
from tests.harness.cut_sorts import LENGTHS_S as CUTS_S
from tests.harness.definition.asked import Definition
from tests.harness.definition.packaged import UNPROVEN_JOB
from tests.harness.lengths import AFTER_DECLARATION, READING_S
from tests.harness.mixture import (
    EMBEDDED,
    GROUPS,
    STACKS,
    TABLE,
    NoFaultError,
    name_of,
    parse_faults,
    plan,
    without_requests,
)
from tests.harness.play.planned import describe, planned_faults
from tests.harness.schedule import DECLARED, STEPS
from tests.harness.slow_disk_sorts import SERVER_DISKS, SLOW_DISK
from tests.harness.stall_sorts import (
    CLUSTER_STALLS,
    EMBEDDED_STALLS,
    LENGTHS_S,
    REQUESTS,
    STALL,
)

SEEDS = st.integers(0, 2**40)


@given(seed=SEEDS, count=st.integers(1, 23))
def test_every_length_of_a_kind_comes_once_before_one_comes_twice(seed: int, count: int) -> None:
    names = ("executor-stall", "broker-cut", "store-slow-disk")
    planned = plan(seed, parse_faults(",".join(f"{name}*{count}" for name in (*names, "broker-kill")), seed), 2)
    for kind, own in ((STALL, LENGTHS_S), (CUT, CUTS_S), (SLOW_DISK, LENGTHS_S)):
        lengths = [one.planned_s or 0.0 for one in planned if one.strike.kind == kind]
        assert len(lengths) == count
        for start in range(0, count, len(own)):
            turn = lengths[start : start + len(own)]
            assert len(set(turn)) == len(turn)
            assert set(turn) <= set(own)
    assert {one.planned_s for one in planned if one.strike == EMBEDDED["broker-kill"]} == {None}


def test_other_seeds_give_other_lengths() -> None:
    orders = {tuple(one.planned_s for one in plan(seed, parse_faults("executor-stall*6", 1), 2)) for seed in range(20)}
    assert len(orders) > 15


@given(seed=SEEDS)
def test_a_delay_follows_a_declaration_and_nothing_else(seed: int) -> None:
    for one in plan(seed, parse_faults("60", seed), 2, table=TABLE):
        assert 0.0 <= one.after_s <= READING_S
        if one.step != DECLARED or one.strike.kind not in AFTER_DECLARATION:
            assert one.after_s == 0.0


@pytest.mark.parametrize("name", sorted({*EMBEDDED_STALLS, *REQUESTS} - {"database-stall", "neighbour-stall"}))
def test_half_of_them_come_while_shards_read_and_the_others_at_every_step(name: str) -> None:
    planned = [one for seed in range(50) for one in plan(seed, parse_faults(f"{name}*6", seed), 2, table=TABLE)]
    reading = [one for one in planned if one.step == DECLARED]
    assert 0.4 < len(reading) / len(planned) < 0.6
    assert {(one.step, one.sink) for one in planned} == {*STEPS, (DECLARED, None)}
    assert len({one.after_s for one in reading}) > 50


def test_neighbours_stall_while_spark_hands_a_shard_its_input() -> None:
    planned = plan(3, parse_faults("neighbour-stall*20", 3), 2, table=TABLE)
    assert {(one.step, one.sink) for one in planned} == {("dedup_begun", None)}
    assert {one.shard for one in planned} == {0, 1}


def test_stalls_are_every_sort_of_the_stack_that_stands_still() -> None:
    assert {name_of(one) for one in parse_faults("stalls", 7)} == set(EMBEDDED_STALLS)
    assert {name_of(one) for one in parse_faults("stalls", 7, CLUSTER)} == set(CLUSTER_STALLS)
    assert Counter(parse_faults("stalls*2, broker-kill", 7)) == Counter(
        [*EMBEDDED_STALLS.values(), *EMBEDDED_STALLS.values(), EMBEDDED["broker-kill"]]
    )
    assert parse_faults("slow-disks", 7) == tuple(SERVER_DISKS.values())
    assert set(GROUPS) & set(EMBEDDED) == set()
    with pytest.raises(NoFaultError, match="a number, stalls, "):
        parse_faults("stall", 7)


def test_a_pipeline_of_ones_own_stalls_too_and_asks_spark_for_nothing() -> None:
    said = {
        "declaration": {"attached": True, "aggregates": {}},
        "rows": ["accepted"],
        "tables": [],
        "lake": [],
        "defaults": {},
    }
    own, stalls = Definition(Job({}), cast("Toolchain", None), said), Conditions(stall_s=(3.0, 12.0))
    planned = planned_faults(1, parse_faults("executor-stall*6", 1), stalls, own)
    assert sorted(one.planned_s or 0.0 for one in planned) == [3.0] * 3 + [12.0] * 3
    assert without_requests(parse_faults("all", 1), "all", "why") == tuple(
        one for name, one in EMBEDDED.items() if name not in REQUESTS
    )
    with pytest.raises(NoFaultError, match="FAULTS=zombie,task-kill: why"):
        without_requests(parse_faults("zombie,task-kill", 1), "zombie,task-kill", "why")


@pytest.mark.parametrize(
    ("option", "lengths", "here", "in_pods"),
    [
        ("--stall-s", "lengths_s", "executor-stall", "kubelet-stall"),
        ("--stall-s", "lengths_s", "store-slow-disk", "store-slow-disk"),
        ("--cut-s", "cuts_s", "broker-cut", "driver-api-cut"),
    ],
)
def test_lengths_can_be_set_and_are_in_the_plan(
    capsys: pytest.CaptureFixture[str], option: str, lengths: str, here: str, in_pods: str
) -> None:
    assert main(["--plan", "--seed", "5", "--faults", f"{here}*4", option, "3,12"]) == 0
    planned = plan(5, parse_faults(f"{here}*4", 5), 2, table=TABLE, **{lengths: (3.0, 12.0)})  # type: ignore[arg-type]
    told = capsys.readouterr().out
    assert told.rstrip("\n") == describe(planned)
    assert (told.count(" for 3 s"), told.count(" for 12 s")) == (2, 2)
    assert told.count(" s later") == sum(one.after_s > 0 for one in planned)
    assert main(["--on", "cluster", "--plan", "--seed", "5", "--faults", f"{in_pods}*2", option, "7"]) == 0
    assert capsys.readouterr().out.count(" for 7 s") == 2


@pytest.mark.parametrize(("option", "fault"), [("--stall-s", "executor-stall"), ("--cut-s", "broker-cut")])
@pytest.mark.parametrize("text", ["0", "-3", "3,x", "", f"{LONGEST_S + 1}", "nan", "inf"])
def test_other_lengths_are_refused(text: str, option: str, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--plan", "--faults", fault, option, text]) == 2
    assert option in capsys.readouterr().err


def test_a_manifest_names_conditions_only_where_they_are_not_the_usual_ones() -> None:
    assert USUAL.named == Conditions(stall_s=LENGTHS_S).model_copy().named == {}
    assert Conditions(stall_s=(3.0, 0.5), cut_s=(40.0,)).named == {"stall_s": "3,0.5", "cut_s": "40"}
    unusual = Conditions(network_s=5.0, payload_bytes=6000, unproven=True)
    assert unusual.named == {"network_s": "5", "payload_bytes": "6000", "unproven": "True"}
    assert unusual.words == ("--network-s", "5", "--payload-bytes", "6000", "--unproven")


@pytest.mark.parametrize("words", [("--network-s", "0.5"), ("--payload-bytes", "-1"), ("--payload-bytes", "2k")])
def test_impossible_conditions_are_refused_on_both_stacks(words: tuple[str, str]) -> None:
    for stack in STACKS:
        assert main(["--on", stack, "--plan", *words]) == 2


def test_only_what_goes_without_proof_is_repaired_and_only_where_the_harness_starts_drivers() -> None:
    assert Conditions(unproven=True, repair=True).words == ("--unproven", "--repair")
    with pytest.raises(ValidationError, match="--repair needs --unproven"):
        Conditions(repair=True)
    assert main(["--plan", "--repair"]) == 2
    assert main(["--plan", "--unproven", "--repair"]) == 0
    assert main(["--on", "cluster", "--plan", "--unproven", "--repair"]) == 2


def test_the_job_without_proof_has_its_name_here() -> None:
    assert find_spec(UNPROVEN_JOB) is not None


def test_pods_run_under_the_same_conditions_and_go_without_proof_by_a_file() -> None:
    assert cluster.changes_of(Conditions(network_s=5.0)) == {"sparkConf": Conditions(network_s=5.0).spark}
    assert Conditions(network_s=5.0).spark["spark.network.timeout"] == "5s"
    assert cluster.changes_of(Conditions(short_pipes=True))["executors"] == {"count": 4}
    changes = cluster.changes_of(Conditions(unproven=True))
    assert changes["settings"] == {"job": "without_proof"}
    assert "whole_input.proven, task_token.confirm = take, go_on" in changes["extraFiles"]["without_proof.py"]
