"""The acceptance run: a pipeline in pods, its executors and what it stands on struck, and the verdict of the judge."""

from __future__ import annotations

from infra.cluster.record import Record
from infra.cluster.state import state_directory
from infra.console import Console
from tests.harness import cut_sorts, stall_sorts
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.nodes import Nodes
from tests.harness.campaigns.strikes import at_their_steps, count_by_kind
from tests.harness.campaigns.suites import PORTION_MINUTES, ROWS_PER_MINUTE, Suite, suite_named
from tests.harness.controls.names import EVERY, QUICK
from tests.harness.faults.cluster_arsenal import ClusterArsenal, heal_nodes
from tests.harness.faults.cluster_cut_arsenal import heal_cuts
from tests.harness.faults.cluster_platform import Platform
from tests.harness.lengths import with_lengths
from tests.harness.mixture import NoFaultError
from tests.harness.play.cluster_acts import SHARDS
from tests.harness.play.cluster_run import ClusterRun, Programme, leaders_of
from tests.harness.results import Results
from tests.harness.schedule import EARLY_STEPS, EVERY_EXECUTOR, EXECUTOR, plan_of
from tests.harness.stack.deployed import Found, NotDeployedError
from tests.harness.stall_sorts import STALL
from tests.harness.subject import Subject, seeded

__all__ = ["NotDeployedError", "on_this_machine", "programme_of"]

CLAIM = (
    "On Kubernetes every event in time is counted exactly once per user and minute, whichever executor pods are "
    "killed or deleted: no sink misses, doubles, invents or alters a record, and no reader sees one change."
)
CLAIM_BEYOND = CLAIM.replace(
    "executor pods are killed or deleted",
    "pods of the pipeline, of its broker and store and of the operator are killed, deleted, stopped or cut off",
)
CLAIM_COPIES = CLAIM.replace(
    "executor pods are killed or deleted",
    "copies of brokers, controllers, object stores and operators are killed, replaced or lose their disks, whichever "
    "node is drained or fails, and whichever pods of the pipeline are killed",
)
BASELINE_MINUTES = 12


def on_this_machine(suite: str, seed: int, console: Console) -> Results:
    """Run a suite on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        suite: `smoke`, `all` or `ha`.
        seed: draws what is sent and struck.
        console: tells what is under way.

    Raises:
        NoSuiteError: there is no such suite; nothing was touched.
        NoFaultError: the cluster lacks what the suite strikes; nothing was touched.
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        ToolchainError: Java or the broker's jars are not to be had.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    asked = suite_named(suite)
    with Found.alone(f"make acceptance SUITE={suite}", console) as found:
        target, deployed = found.target(), found.deployed
        # On a cluster that `make up` did not make, servers and operator are others' too: executors alone are struck.
        platform = None
        cluster = Cluster(deployed.kubeconfig, deployed.context, target.namespace)
        if Record.read(state_directory().record) is not None:
            nodes = Nodes.here(cluster.reader, console)
            if nodes is not None and asked.needed:
                heal_nodes(cluster, nodes, console.say)
                heal_cuts(nodes, console.say)
            platform = Platform.of(deployed.kubeconfig, deployed.context, deployed.platform, nodes)
        if asked.needed:
            _refuse(asked, platform, cluster)
        programme = programme_of(asked, seed, platform)
        return ClusterRun.of(found, target, programme, seed, console).run(
            count_by_kind(one.strike for one in programme.planned)
        )


def _refuse(suite: Suite, platform: Platform | None, cluster: Cluster) -> None:
    """Refuse a cluster that lacks what a suite needs. Raises NoFaultError."""
    if platform is None:
        raise NoFaultError(
            f"SUITE={suite.name} strikes servers and nodes, which is done only on a cluster that `make up` made here: "
            "`make up PROFILE=ha`"
        )
    suite.refuse(len(cluster.nodes()) if platform.nodes is not None else 0, platform.copies)


def programme_of(suite: Suite, seed: int, platform: Platform | None = None) -> Programme:
    """What a suite does with a seed.

    Args:
        suite: which.
        seed: draws what is sent and struck.
        platform: what may be struck beside executors, and the driver with it; None: neither.
    """
    nodes = int(platform is not None and platform.nodes is not None)
    strikes = suite.draw(seed, None if platform is None else platform.servers, nodes)
    others = any(one.target not in (EXECUTOR, EVERY_EXECUTOR) or one.kind == STALL for one in strikes)
    beyond = platform if others else None
    claim = CLAIM if beyond is None else CLAIM_COPIES if suite.needed else CLAIM_BEYOND
    planned = at_their_steps(plan_of(seed, strikes, SHARDS), seed, EARLY_STEPS)
    return Programme(
        claim,
        subject_of(seed, suite.minutes(strikes), portioned=True),
        with_lengths(planned, seed, stall_sorts.SHORT_S, cut_sorts.SHORT_IN_PODS_S),
        {"suite": suite.name},
        baseline=subject_of(seed + 1, BASELINE_MINUTES, portioned=False) if suite.baseline else None,
        controls=EVERY if suite.every_control else QUICK,
        arsenal=None
        if beyond is None
        else lambda stack, drivers, watch: ClusterArsenal(
            drivers,
            watch,
            stack.cluster,
            beyond,
            stack.run,
            leaders=leaders_of(stack, beyond),
            seed=seed,
            say=stack.console.say,
        ),
        services=None if beyond is None else lambda stack: beyond.services(stack.endpoints),
    )


def subject_of(seed: int, minutes: int, *, portioned: bool) -> Subject:
    """What is sent in some minutes of event time."""
    portion = ROWS_PER_MINUTE * PORTION_MINUTES if portioned else 0
    return seeded(seed, ROWS_PER_MINUTE * minutes, minutes, portion)
