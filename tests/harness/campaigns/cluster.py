"""The campaign on a cluster: a pipeline in pods under every fault of a plan that a seed draws.

Of a pipeline that its author defined, the package goes into the pods beside the library.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from infra.cluster.access import Access
from infra.console import Console
from infra.embedded.job import RunError
from infra.toolchain.prepare import default_console, prepare
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.pod_database import PodDatabase
from tests.harness.adapters.pod_requests import PodRequests, values_of_requests
from tests.harness.adapters.rendering import lay_over
from tests.harness.campaigns.defined import definition_of, file_of, subject_for, without_what_it_lacks
from tests.harness.campaigns.needed import find_needed
from tests.harness.campaigns.options import FAULTS, Campaign
from tests.harness.campaigns.strikes import count_by_kind
from tests.harness.cluster_sorts import (
    BROKERS_NEEDED,
    CLUSTER,
    COPIES_NEEDED,
    MOST_COPIES,
    MOST_NODES,
    MOST_ROLES,
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
from tests.harness.definition.packaged import UNPROVEN
from tests.harness.definition.packaged import USER_COUNTS as PACKAGED
from tests.harness.faults.cluster_arsenal import ClusterArsenal, heal_nodes
from tests.harness.faults.cluster_cut_arsenal import heal_cuts
from tests.harness.faults.cluster_platform import Platform
from tests.harness.faults.lag import lags_of
from tests.harness.faults.slow_disk_arsenal import slow_disks_of, strace_beside
from tests.harness.lag_sorts import IN_PODS
from tests.harness.mixture import NoFaultError, name_of, parse_faults, without_result_store, without_slow_disks
from tests.harness.platform_sorts import RESULT_STORE
from tests.harness.play.cluster_run import ClusterRun, Programme, leaders_of
from tests.harness.play.planned import planned_faults, show_plan
from tests.harness.play.result_table import ResultTable
from tests.harness.portions import sent_by
from tests.harness.results import Results
from tests.harness.schedule import Strike
from tests.harness.slow_disk_sorts import SLOW_DISK
from tests.harness.spread import EXECUTORS, PARTITIONS
from tests.harness.stack.deployed import USER_COUNTS, Found, NotDeployedError
from tests.harness.stall_sorts import asks_spark
from tests.harness.subject import Subject

CLAIM = (
    "On Kubernetes every event in time is counted exactly once per user and minute, whichever pods of the pipeline and "
    "of what it stands on are killed, deleted or cut off: no sink misses, doubles, invents or alters a record, and no "
    "reader sees one change."
)


def strikes_of(
    faults: str,
    seed: int,
    nodes: int,
    roles: Collection[str],
    brokers: int = USUAL_BROKERS,
    *,
    copies: Mapping[str, int] | None = None,
    unpaced: bool = False,
) -> tuple[Strike, ...]:
    """The strikes that FAULTS= names on a cluster; for the arguments see `lacking`.

    Args:
        faults: names, a number or `all`.
        seed: draws.
        nodes: how many can be reached as machines.
        roles: of its servers.
        brokers: how many are pods of ours.
        copies: how many pods each server has.
        unpaced: whether partitions can lag, and others be away.

    Raises:
        NoFaultError: a name is none, or this cluster does not have that sort.
    """
    for name in _names_in(faults):
        if (why := lacking(name, nodes, roles, brokers, copies=copies)) is not None:
            raise NoFaultError(why)
    lags = {name: one for name, one in IN_PODS.items() if unpaced and lacking(name, nodes, roles, brokers) is None}
    return parse_faults(faults, seed, {**sorts_on(nodes, roles, brokers, copies=copies), **lags})


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
    changes = changes_of(conditions, strikes, subject.gateways)
    if definition is None:
        named = {"campaign": "cluster", **subject.named, **named}
    else:
        changes |= values_of(definition, subject, deployed or {})
    return Programme(
        CLAIM,
        subject,
        planned_faults(seed, strikes, conditions, definition or PACKAGED, early=True),
        named,
        controls=EVERY if controls and definition is None else (),
        arsenal=lambda stack, drivers, watch: ClusterArsenal(
            drivers,
            watch,
            stack.cluster,
            platform,
            stack.run,
            zombie_s,
            leaders_of(stack, platform, (definition or PACKAGED).shards),
            conditions.network_s,
            lags_of(subject, seed),
            PodRequests(drivers) if asks_spark(strikes) else None,
            slow_disks_of(
                strace, stack.directory.logs / "strace.log", stack.endpoints, table.database if table else None
            )
            if strace
            else None,
            seed=seed,
            say=stack.console.say,
        ),
        table=table,
        partitions=PARTITIONS,
        changes=changes,
        definition=definition,
        services=lambda stack: platform.services(stack.endpoints),
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
    return lay_over(changes, values_of_requests()) if asks_spark(strikes) else changes


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


def run(seed: int, asked: Campaign) -> Results | None:
    """Run what the command line asks for; None: its plan was printed, and nothing done.

    Raises:
        NoFaultError: a fault is asked for that this cluster does not have.
        InputError: what is sent is none, or too little.
        UserError: nothing is deployed, or something that a run needs is not to be had.
    """
    # Before anything is looked for: a name that there is on no cluster, a number of records that is none.
    unpaced = asked.rate is not None
    most, named = max(BROKERS_NEEDED.values()), _names_in(asked.faults)
    strikes_of(asked.faults, seed, MOST_NODES, MOST_ROLES, most, copies=MOST_COPIES, unpaced=unpaced)
    # `all` is that of `make up PROFILE=chaos`; what is named is taken to be there.
    brokers = max(USUAL_BROKERS, *(BROKERS_NEEDED.get(name, 0) for name in named))
    several = bool(COPIES_NEEDED.keys() & {*named})
    usual = (MOST_NODES, MOST_ROLES, brokers) if several else (USUAL_NODES, USUAL_ROLES, brokers)
    strikes = strikes_of(asked.faults, seed, *usual, copies=MOST_COPIES if several else None, unpaced=unpaced)
    conditions, definition, console = asked.conditions, None, default_console()
    if asked.is_defined:
        strikes = without_what_it_lacks(strikes, asked)
    if (file := file_of(asked)) is not None:
        definition = definition_of(asked, prepare(console), console)
        _, strikes = subject_for(definition, file, strikes, asked)
    else:
        sent_by(seed, asked.records, strikes, conditions)
    if asked.plan:
        show_plan(planned_faults(seed, strikes, conditions, definition or PACKAGED, early=True))
        return None
    with Found.alone(f"make chaos ON=cluster SEED={seed}", console) as found:
        return _play(found, asked, definition, file, seed=seed, console=console)


def _play(
    found: Found,
    asked: Campaign,
    definition: Definition | None,
    file: Subject | None,
    *,
    seed: int,
    console: Console,
) -> Results:
    conditions = asked.conditions
    target, deployed = found.target(definition.job.name if definition else USER_COUNTS), found.deployed
    cluster = Cluster(deployed.kubeconfig, deployed.context, target.namespace)
    nodes = Nodes.here(cluster.reader, console)
    platform = Platform.of(deployed.kubeconfig, deployed.context, deployed.platform, nodes)
    platform = replace(platform, lengths=asked.lengths_in_pods)
    count = len(cluster.nodes()) if nodes else 0
    there = (count, platform.servers, platform.brokers)
    strikes = strikes_of(asked.faults, seed, *there, copies=platform.copies, unpaced=asked.rate is not None)
    if definition is not None and file is not None:
        subject, strikes = subject_for(definition, file, without_what_it_lacks(strikes, asked), asked)
    if asks_spark(strikes):
        refuse_requests(target.values)
    if asked.unproven:
        # The job without proof has no table.
        strikes = without_result_store(strikes, asked.faults)
    strace, no_strace = find_needed(SLOW_DISK, strikes, lambda: strace_beside(platform.servers))
    if no_strace is not None:
        strikes = without_slow_disks(strikes, asked.faults, no_strace)
        console.say(f"… left out: slow disks. {no_strace}")
    if nodes:
        heal_nodes(cluster, nodes, console.say)
        heal_cuts(nodes, console.say)
    if asked.faults == FAULTS and (left_out := sorted(set(CLUSTER) - set(sorts_on(*there, copies=platform.copies)))):
        console.say(f"  this cluster does not have: {', '.join(left_out)}")
    if definition is None:
        subject = sent_by(seed, asked.records, strikes, conditions)
    tabled = definition.has_tables if definition else not conditions.unproven
    programme = programme_of(
        seed,
        subject,
        strikes,
        platform,
        zombie_s=asked.zombie_s,
        controls=asked.controls,
        table=table_of(deployed, platform, console, definition) if tabled else None,
        conditions=conditions,
        strace=strace,
        definition=definition,
        deployed=target.values,
    )
    return ClusterRun.of(found, target, programme, seed, console).run(count_by_kind(strikes))


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
    database = PodDatabase.of(server, deployed.platform)
    return ResultTable(database, defined=definition is not None)


def _names_in(faults: str) -> list[str]:
    """Words of FAULTS= without their counts."""
    return [word.strip().partition("*")[0] for word in faults.split(",")]
