"""The changes that are made to a pipeline while it runs, as data: what is set, where it is seen, what it may cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from infra.errors import UserError
from infra.settings.security import Security
from tests.harness.upgrade.look import (
    Effect,
    Look,
    see_certificates,
    see_cpu,
    see_executors,
    see_logins,
    see_settings,
    see_shards,
    see_wheel,
)

BUMPS = 20
RESTART_S, ROLL_S, ASIDE_S = 300.0, 600.0, 120.0
"""Longest time without an epoch: of a driver that is replaced (30 s to end its epoch, a job that looks for topics, and
a start of a minute on two busy cores), of servers that roll with it, and of what no epoch waits for. The first two
took 46 to 63 s and 65 to 130 s on such a machine."""
USUAL_S = 150.0
"""What a step takes in all, for the number of records: an update, its effect, an epoch."""
ROWS, LATENESS, SHARDS = "epoch_rows_max", "lateness_ms", "shards"
NOT_PLAYED = {
    "kafka": "the project pins one version of Kafka: there is no second one to go to and back",
    "spark": "the project pins one version of Spark: there is no second one to go to and back",
}
"""Changes that no run makes here, and why."""


class NoChangeError(UserError):
    """There is no such change, or it cannot be made here; the message says what to do. Nothing was touched."""


@dataclass(frozen=True)
class Facts:
    """What a deployed stack is, as far as changes depend on it.

    Attributes:
        name: of the pipeline.
        security: what is encrypted and asks for a login.
        executors: of the pipeline.
        settings: all that its driver reads.
        digest: of settings as a driver announces them, which are given as they are and as they would be.
        look: what is seen before the first change; of servers alone, before there is a pipeline.
    """

    name: str
    security: Security
    executors: int
    settings: Mapping[str, Any]
    digest: Callable[[Mapping[str, Any]], str]
    look: Look


@dataclass(frozen=True)
class Step:
    """One update of the stack.

    Attributes:
        name: of the change.
        says: what is done.
        sets: settings of the stack by their paths.
        takes: whether it has taken effect.
        bound_s: longest time without an epoch.
        bump: number of the wheel that is put into the image; None: the one that is there.
        settings: what its driver reads then, where that differs; the file of the run directory has it.
        shards: how many the next epoch has, where that differs.
        refused: setting whose change the driver has to refuse, after which it is put back; empty: it is taken.
        undo: what puts that back.
    """

    name: str
    says: str
    sets: Mapping[str, str]
    takes: Effect
    bound_s: float = RESTART_S
    bump: int | None = None
    settings: Mapping[str, Any] | None = None
    shards: int | None = None
    refused: str = ""
    undo: Mapping[str, str] = field(default_factory=dict)


Needs = Callable[[Facts], str]
"""Why a change cannot be made here, with what to do; empty: it can."""


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes:
        name: on the command line.
        says: what it is.
        steps: the updates it is made of.
        needs: whether it can be made.
    """

    name: str
    says: str
    steps: Callable[[Facts], list[Step]]
    needs: Needs = lambda _: ""


def raise_cpu(cpu: str) -> str:
    """Return a quantity of processor time, one thousandth of a core more. Raises ValueError."""
    milli = int(cpu[:-1]) if cpu.endswith("m") else round(float(cpu) * 1000)
    return f"{milli + 1}m"


def _wheel(facts: Facts) -> list[Step]:
    return [
        Step("wheel", f"{number} of {BUMPS}: a wheel of another version", {}, see_wheel, bump=number)
        for number in range(1, BUMPS + 1)
    ]


def _set(facts: Facts, change: str, name: str, value: int, see: Callable[[str], Effect] = see_settings) -> Step:
    """Return the update of one setting of the pipeline; `see` is given the digest of all that its driver reads then."""
    settings = {**facts.settings, name: value}
    takes = see(facts.digest(settings))
    return Step(change, f"{name} {value}", {f"pipelines.{facts.name}.{name}": str(value)}, takes, settings=settings)


def _setting(facts: Facts) -> list[Step]:
    before = int(facts.settings[ROWS])
    return [_set(facts, "setting", ROWS, value) for value in (before - before // 4, before)]


def _executors(facts: Facts) -> list[Step]:
    path = f"pipelines.{facts.name}.executors.count"
    return [
        Step("executors", f"{count} executors", {path: str(count)}, see_executors(count))
        for count in (facts.executors + 1, facts.executors)
    ]


def _shards(facts: Facts) -> list[Step]:
    before = int(facts.settings[SHARDS])
    return [
        replace(_set(facts, "shards", SHARDS, count, partial(see_shards, count)), says=f"{count} shards", shards=count)
        for count in (before + 1, before)
    ]


def _passwords(facts: Facts) -> list[Step]:
    number = facts.security.rotation + 1
    return [Step("passwords", f"security.rotation {number}", {"security.rotation": str(number)}, see_logins, ROLL_S)]


def _certificates(facts: Facts) -> list[Step]:
    number = facts.security.authority + 1
    sets = {"security.authority": str(number)}
    return [Step("certificates", f"security.authority {number}", sets, see_certificates("result store"), ROLL_S)]


def _lateness(facts: Facts) -> list[Step]:
    value, path = int(facts.settings[LATENESS]), f"pipelines.{facts.name}.{LATENESS}"
    return [
        Step(
            "lateness",
            f"{LATENESS} {value + 1000} is refused, and put back",
            {path: str(value + 1000)},
            see_settings(facts.digest(facts.settings)),
            ROLL_S,
            settings=facts.settings,
            refused=LATENESS,
            undo={path: str(value)},
        )
    ]


def _server(name: str, role: str, section: str, bound_s: float) -> Change:
    """Return the change of a server's resources, after which each of its pods is another one."""

    def steps(facts: Facts) -> list[Step]:
        pod = facts.look.servers[role][0]
        cpu = raise_cpu(pod.cpu)
        sets = {"cpu_request": cpu, "memory_request": pod.memory, "memory_limit": pod.memory_limit}
        paths = {f"{section}.resources.{key}": value for key, value in sets.items()}
        return [Step(name, f"{section}.resources.cpu_request {cpu}", paths, see_cpu(role, cpu), bound_s)]

    def needs(facts: Facts) -> str:
        pods = facts.look.servers.get(role, ())
        if not pods:
            return f"the {role} is none of this stack's pods: deploy ours (`make up` does)"
        if not all((pods[0].cpu, pods[0].memory, pods[0].memory_limit)):
            return f"the {role} states no resources: set {section}.resources"
        return ""

    return Change(name, f"{section}.resources: every pod of the {role} is replaced", steps, needs)


def _unpinned(facts: Facts) -> str:
    way = "a wheel's image has no digest before it is pushed: leave the change out, or set security.pinned_images false"
    return way if facts.security.pinned_images else ""


def _has_logins(facts: Facts) -> str:
    if facts.security.spark or facts.security.object_store or facts.security.kafka:
        return ""
    return "no login of a pipeline is derived: `pulumi config set --path security.spark true`, then `make up`"


def _has_certificates(facts: Facts) -> str:
    if facts.security.result_store and facts.look.servers.get("result store"):
        return ""
    return "no server has certificates: `pulumi config set --path security.result_store true`, then `make up`"


CHANGES = (
    Change("setting", f"{ROWS} lowered and put back: the driver restarts", _setting),
    Change("executors", "one executor more, and one less", _executors),
    Change("shards", "one shard more, and one less", _shards),
    _server("operator", "operator", "spark_operator", ASIDE_S),
    _server("kafka-chart", "broker", "kafka", ROLL_S),
    _server("store-chart", "object store", "object_store", ROLL_S),
    Change("passwords", "every derived login anew", _passwords, _has_logins),
    Change("certificates", "signed by another authority", _certificates, _has_certificates),
    Change("lateness", f"{LATENESS} is bound: the change is refused, and put back", _lateness),
    Change("wheel", f"{BUMPS} versions of a wheel, one after the other", _wheel, _unpinned),
)
"""In the order in which they are made."""


def choose(names: str | None) -> tuple[Change, ...]:
    """Return the changes of names with commas between, all for None. Raises NoChangeError."""
    known = {one.name: one for one in CHANGES}
    wanted = [*known] if names is None else list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in wanted:
        if name in NOT_PLAYED:
            raise NoChangeError(f"change {name} is not made here: {NOT_PLAYED[name]}")
    if strange := [name for name in wanted if name not in known]:
        raise NoChangeError(
            f"there is no change {', '.join(map(repr, strange))} (CHANGES=); there are: {', '.join(known)}"
        )
    return tuple(known[name] for name in wanted)


def sort_out(chosen: Sequence[Change], facts: Facts, *, named: bool) -> tuple[list[Change], dict[str, str]]:
    """Return the changes that can be made here, and why others cannot.

    Args:
        chosen: which were asked for.
        facts: the stack.
        named: whether they were by their names: then all have to be possible.

    Raises:
        NoChangeError: one that was named is not, or none is.
    """
    lacking = {one.name: why for one in chosen if (why := one.needs(facts))}
    possible = [one for one in chosen if one.name not in lacking]
    if lacking and (named or not possible):
        told = "; ".join(f"{name}: {why}" for name, why in lacking.items())
        raise NoChangeError(f"a change cannot be made on this stack, nothing was touched: {told}")
    return possible, lacking


def count_steps(steps: Sequence[Step]) -> dict[str, int]:
    """Return how many updates each change is, as a manifest plans them."""
    return dict(Counter(one.name for one in steps))
