"""The campaign on a cluster: a pipeline in pods under every fault of a plan that a seed draws.

`python -m tests.harness.campaigns.cluster_chaos --seed 1` runs it and exits with 0 pass, 1 fail, 2 unknown;
`--plan` prints the plan. With `--at FOLDER --input FILE --key COLUMN --time COLUMN` the pipeline is one that its author
defined: its package goes into the pods beside the library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from infra.cluster.access import Access
from infra.console import Console
from infra.embedded.guard import guarded
from infra.embedded.job import RunError
from infra.toolchain.prepare import default_console, prepare
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.pod_database import PodDatabase
from tests.harness.adapters.pod_requests import PodRequests, values_of_requests
from tests.harness.campaigns.chaos import UNPROVEN, lags_of, needed, planned_faults, show_plan
from tests.harness.campaigns.options import (
    FAULTS,
    add_campaign,
    carry_out,
    definition_of,
    file_of,
    is_defined,
    sent_to,
    settle,
    show_results,
    without_what_it_lacks,
)
from tests.harness.campaigns.strikes import told
from tests.harness.cluster_sorts import (
    BROKERS_NEEDED,
    CLUSTER,
    USUAL_BROKERS,
    USUAL_NODES,
    USUAL_ROLES,
    lacking,
    sorts_on,
)
from tests.harness.conditions import USUAL, Conditions
from tests.harness.controls.names import EVERY
from tests.harness.definition.asked import Definition
from tests.harness.definition.in_pods import values_of
from tests.harness.faults.cluster_arsenal import ZOMBIE_S, ClusterArsenal, heal_nodes
from tests.harness.faults.cluster_cut_arsenal import heal_cuts
from tests.harness.faults.cluster_platform import Platform, PlatformLengths
from tests.harness.faults.slow_disk_arsenal import slow_disks_of, strace_beside
from tests.harness.lag_sorts import IN_PODS
from tests.harness.mixture import NoFaultError, asked_for, name_of, without_result_store, without_slow_disks
from tests.harness.platform_sorts import RESULT_STORE
from tests.harness.play.cluster_run import ClusterRun, Programme, leaders_of
from tests.harness.play.deployed import USER_COUNTS, NotDeployedError
from tests.harness.play.result_table import ResultTable
from tests.harness.play.room import Found
from tests.harness.play.stage import SHARDS, laid_over
from tests.harness.portions import sent_by
from tests.harness.results import Results
from tests.harness.schedule import Strike
from tests.harness.slow_disk_sorts import SLOW_DISK
from tests.harness.spread import EXECUTORS, PARTITIONS
from tests.harness.stall_sorts import asks_spark
from tests.harness.subject import Subject

CLAIM = (
    "On Kubernetes every event in time is counted exactly once per user and minute, whichever pods of the pipeline and "
    "of what it stands on are killed, deleted or cut off: no sink misses, doubles, invents or alters a record, and no "
    "reader sees one change."
)
OF_A_DEFINITION = "executor-kill*2,worker-stall,driver-kill,broker-kill,store-kill"
"""Faults of a pipeline that its author defined, where nothing is said."""
LENGTHS = {
    "broker_stop_s": "a stopped broker's stop",
    "store_stop_s": "a stopped store's stop",
    "api_outage_s": "the API server's stop",
    "dns_outage_s": "DNS' stop",
    "node_down_s": "between a node's end and its start",
}


def strikes_of(
    faults: str, seed: int, nodes: int, roles: Collection[str], brokers: int = USUAL_BROKERS, *, unpaced: bool = False
) -> tuple[Strike, ...]:
    """The strikes that FAULTS= names on a cluster; `unpaced`: partitions can lag, and gateways be away.

    Raises:
        NoFaultError: a name is none, or this cluster does not have that sort.
    """
    for name in _named(faults):
        if (why := lacking(name, nodes, roles, brokers)) is not None:
            raise NoFaultError(why)
    return asked_for(faults, seed, {**sorts_on(nodes, roles, brokers), **(IN_PODS if unpaced else {})})


def programme_of(
    seed: int,
    subject: Subject,
    strikes: Sequence[Strike],
    platform: Platform,
    *,
    zombie_s: float,
    controls: bool,
    table: ResultTable | None = None,
    conditions: Conditions = USUAL,
    strace: Path | None = None,
    definition: Definition | None = None,
    deployed: Mapping[str, Any] | None = None,
) -> Programme:
    """What a campaign does.

    Args:
        seed: draws when what is done.
        subject: what is sent.
        strikes: what is done, in any order.
        platform: what the pipeline stands on.
        zombie_s: how long the driver beside a zombie may take to publish.
        controls: whether the negative controls are played.
        table: what the pipeline writes to beside its other sinks; None: there is no result store.
        conditions: under which the pipeline runs.
        strace: slows disks; None: there is no such strike.
        definition: the pipeline; None: `user_counts`.
        deployed: values of the one whose image it takes.
    """
    named = {"faults": ",".join(name_of(one) for one in strikes), **conditions.named}
    changes, shards = changes_of(conditions, strikes, subject.gateways), SHARDS
    if definition is None:
        named = {"campaign": "cluster", **subject.named, **named}
    else:
        changes |= values_of(definition, subject, deployed or {})
        shards = definition.settings["shards"]
    return Programme(
        CLAIM,
        subject,
        planned_faults(seed, strikes, conditions, definition, early=True),
        named,
        controls=EVERY if controls and definition is None else (),
        arsenal=lambda stage, drivers, watch: ClusterArsenal(
            drivers,
            watch,
            stage.cluster,
            platform,
            stage.run,
            zombie_s,
            leaders_of(stage, platform, shards),
            conditions.network_s,
            lags_of(subject, seed),
            PodRequests(drivers) if asks_spark(strikes) else None,
            slow_disks_of(
                strace, stage.directory.logs / "strace.log", stage.endpoints, table.database if table else None
            )
            if strace
            else None,
            seed=seed,
            say=stage.console.say,
        ),
        table=table,
        partitions=PARTITIONS,
        changes=changes,
        definition=definition,
    )


def changes_of(conditions: Conditions, strikes: Sequence[Strike] = (), gateways: Sequence[str] = ()) -> dict[str, Any]:
    """Values of the chart under which the pipeline runs in its pods, and its drivers take what is asked of Spark."""
    changes: dict[str, Any] = {"sparkConf": conditions.spark}
    if conditions.short_pipes:
        # Of two, the one that was just replaced has no blocks yet: nobody would wait for it.
        changes["executors"] = {"count": EXECUTORS}
    if conditions.unproven:
        job = (Path(__file__).parents[1] / f"{UNPROVEN}.py").read_text(encoding="utf-8")
        changes |= {"settings": {"job": UNPROVEN}, "extraFiles": {f"{UNPROVEN}.py": job}}
    if own := conditions.pipeline(gateways):
        changes["settings"] = {**changes.get("settings", {}), **own}
    return laid_over(changes, values_of_requests()) if asks_spark(strikes) else changes


def refuse_requests(values: Mapping[str, Any]) -> None:
    """Refuse to run the deployed pipeline below `with_requests` where that would run something else in its place.

    Raises:
        NotDeployedError: it is no module that its settings name.
    """
    job = str(values["settings"].get("job", ""))
    if values.get("module") or ":" in job:
        raise NotDeployedError(
            f"task-kill and stage-cancel need a job that is a module: user_counts is deployed as "
            f"{values.get('module') or job}. Leave them out of FAULTS=, or deploy the pipeline of `make up`"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    return carry_out(_run, _given(arguments), "every fault is undone, and the run's objects are deleted")


def _run(seed: int, given: argparse.Namespace) -> int:
    # Before anything is looked for: a name that there is on no cluster, a number of records that is none.
    unpaced = given.rate is not None
    strikes_of(given.faults, seed, USUAL_NODES, USUAL_ROLES, max(BROKERS_NEEDED.values()), unpaced=unpaced)
    # `all` is that of `make up PROFILE=chaos`; what is named is taken to be there.
    brokers = max(USUAL_BROKERS, *(BROKERS_NEEDED.get(name, 0) for name in _named(given.faults)))
    strikes = strikes_of(given.faults, seed, USUAL_NODES, USUAL_ROLES, brokers, unpaced=unpaced)
    conditions, definition, console = Conditions.of(given), None, default_console()
    if is_defined(given):
        strikes = without_what_it_lacks(strikes, given)
    if (file := file_of(given)) is not None:
        definition = definition_of(given, prepare(console), console)
        _, strikes = sent_to(definition, file, strikes, given)
    else:
        sent_by(seed, given.records, strikes, conditions)
    if given.plan:
        return show_plan(planned_faults(seed, strikes, conditions, definition, early=True))
    with Found.alone(f"make chaos ON=cluster SEED={seed}", console) as found:
        return show_results(_played(found, given, definition, file, seed=seed, console=console))


def _played(
    found: Found,
    given: argparse.Namespace,
    definition: Definition | None,
    file: Subject | None,
    *,
    seed: int,
    console: Console,
) -> Results:
    conditions = Conditions.of(given)
    target, deployed = found.target(definition.job.name if definition else USER_COUNTS), found.deployed
    cluster = Cluster(deployed.kubeconfig, deployed.context, target.namespace)
    nodes = Nodes.here(cluster.reader, console)
    platform = Platform.of(deployed.kubeconfig, deployed.context, deployed.platform, nodes)
    platform = replace(platform, lengths=PlatformLengths(**{name: getattr(given, name) for name in LENGTHS}))
    count = len(cluster.nodes()) if nodes else 0
    strikes = strikes_of(given.faults, seed, count, platform.servers, platform.brokers, unpaced=given.rate is not None)
    if definition is not None and file is not None:
        subject, strikes = sent_to(definition, file, without_what_it_lacks(strikes, given), given)
    if asks_spark(strikes):
        refuse_requests(target.values)
    if given.unproven:
        # The job without proof has no table.
        strikes = without_result_store(strikes, given.faults)
    strace, no_strace = needed(SLOW_DISK, strikes, lambda: strace_beside(platform.servers))
    if no_strace is not None:
        strikes = without_slow_disks(strikes, given.faults, no_strace)
        console.say(f"… left out: slow disks. {no_strace}")
    if nodes:
        heal_nodes(cluster, nodes, console.say)
        heal_cuts(nodes, console.say)
    there = sorts_on(count, platform.servers, platform.brokers)
    if given.faults == FAULTS and (left_out := sorted(set(CLUSTER) - set(there))):
        console.say(f"  this cluster does not have: {', '.join(left_out)}")
    if definition is None:
        subject = sent_by(seed, given.records, strikes, conditions)
    tabled = definition.has_tables if definition else not conditions.unproven
    programme = programme_of(
        seed,
        subject,
        strikes,
        platform,
        zombie_s=given.zombie_s,
        controls=given.controls,
        table=table_of(deployed, platform, console, definition) if tabled else None,
        conditions=conditions,
        strace=strace,
        definition=definition,
        deployed=target.values,
    )
    return ClusterRun.of(found, target, programme, seed, console).run(told(strikes))


def table_of(
    deployed: Access, platform: Platform, console: Console, definition: Definition | None = None
) -> ResultTable | None:
    """What the pipeline writes to the stack's PostgreSQL; None, which is said, where that is no pod of ours.

    Raises:
        AccessError: there is one, and its credentials are not to be had.
        RunError: there is none, and the tables are those of a pipeline that its author defined.
    """
    if (server := platform.servers.get(RESULT_STORE)) is None:
        if definition is not None:
            raise RunError(f"{definition.job.name} has tables, and no PostgreSQL of this cluster is a pod of ours")
        console.say(
            "… left out: the table of the pipeline, and faults of the result store: this cluster has none of ours"
        )
        return None
    database = PodDatabase.of(server, deployed.platform, deployed.kubeconfig, deployed.context)
    return ResultTable(database, defined=definition is not None)


def _named(faults: str) -> list[str]:
    """Words of FAULTS= without their counts."""
    return [word.strip().partition("*")[0] for word in faults.split(",")]


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.campaigns.cluster_chaos",
        description="Strikes every role of the deployed platform; judges the outputs.",
    )
    usual = PlatformLengths()
    lengths = {name: (getattr(usual, name), says) for name, says in LENGTHS.items()}
    zombie = ZOMBIE_S, "longest time that the driver beside a zombie may take to publish"
    add_campaign(parser, where=" on two nodes", lengths={**lengths, "zombie_s": zombie})
    given = settle(parser, parser.parse_args(arguments), OF_A_DEFINITION)
    if given.repair:
        parser.error("--repair is for the embedded stack: in pods an operator repairs")
    return given


if __name__ == "__main__":
    sys.exit(guarded(main))
