"""Who Kafka's nodes and users are: certificates by the platform's authority, passwords, and rights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.certificates import Certificate, sign
from infra.components.authority import Authority, sign_pair
from infra.components.clients import CA, KAFKA_SUFFIX, encode, login
from infra.components.derived import KEY, derive, version
from infra.components.secret import make_secret
from infra.settings import Pipeline, Settings
from infra.settings.exposure import resolve_exposure
from infra.settings.kafka import KafkaUser
from infra.values.kafka import Right, Security

NODES, ADMIN, USERS = "kafka-tls", "kafka-admin-tls", "kafka-users"
MAY_ALL: Final = ("platform-nodes", "platform-admin")
"""Names of nodes, and of who gives rights. No identity has a dash, so no pipeline's user is taken for one of them."""
CAMPAIGNS: Final = "platform-campaigns"
"""Likewise; who runs campaigns logs in by a password, as clients do. It stays: a run changes those of others."""
MECHANISM: Final = "SCRAM-SHA-512"
STATEMENTS: Final = ".sources"
"""Behind the name of an input: the topic in which its sources say how far they are, as the library names it."""
_READS: Final = ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")


def values(settings: Settings) -> Security | None:
    """Return what the broker's chart is told, None where its connections are plain."""
    if not settings.security.kafka:
        return None
    suffix = version(settings)
    return Security(
        tls_secret=_nodes_secret(settings),
        admin_secret=f"{ADMIN}-{suffix}",
        users_secret=f"{USERS}-{suffix}",
        users={
            **{one.identity: tuple(rights(one)) for one in settings.pipelines.values()},
            **{name: tuple(rights_of_user(name, one)) for name, one in settings.kafka.users.items()},
            **({CAMPAIGNS: tuple(every_right())} if settings.security.campaigns else {}),
        },
        grant_image=settings.images.spark,
        version=suffix,
    )


def rights(pipeline: Pipeline) -> Iterator[Right]:
    """Yield what a pipeline may do: with its input, and with names that begin with its own and a dot."""
    own = f"{pipeline.identity}."
    makes = ("CREATE",) if pipeline.create_topic else ()
    for topic in pipeline.topics:
        for one in (topic, f"{topic}{STATEMENTS}"):
            yield Right(kind="topic", name=one, operations=(*_READS, *makes))
    # To alter a topic is to give it partitions for more shards.
    yield Right(kind="topic", name=own, prefixed=True, operations=(*_READS, "WRITE", "CREATE", "ALTER"))
    yield Right(kind="transactional_id", name=own, prefixed=True, operations=("WRITE", "DESCRIBE"))
    # Groups of the library keep nothing: readers are told what they read.
    for name in (own, "effectively-once.", "spark-kafka-"):
        yield Right(kind="group", name=name, prefixed=True, operations=("READ", "DESCRIBE"))
    for name in (pipeline.identity, "sources"):
        yield Right(kind="group", name=name, operations=("READ", "DESCRIBE"))


def rights_of_user(name: str, user: KafkaUser) -> Iterator[Right]:
    """Yield what somebody may do who is no pipeline."""
    for topic in user.writes:
        for one in (topic, f"{topic}{STATEMENTS}"):
            yield Right(kind="topic", name=one, operations=("WRITE", "DESCRIBE"))
    for topic in user.reads:
        yield Right(kind="topic", name=topic, prefixed=topic.endswith("."), operations=("READ", "DESCRIBE"))
    if user.reads:
        yield Right(kind="group", name=f"{name}.", prefixed=True, operations=("READ", "DESCRIBE"))


def every_right() -> Iterator[Right]:
    """Yield what may be done with everything: a campaign makes topics, moves leaders, ends transactions of others."""
    for kind in ("topic", "group", "transactional_id"):
        yield Right(kind=kind, name="*", operations=("ALL",))
    yield Right(kind="cluster", name="kafka-cluster", operations=("ALL",))


def login_of_campaigns(settings: Settings) -> str | None:
    """Return the Secret, in the pipelines' namespace, of who runs campaigns; None where nobody has a login for that."""
    both = settings.security.kafka and settings.security.campaigns
    return f"{CAMPAIGNS}{KAFKA_SUFFIX}" if both else None


def hosts(settings: Settings) -> list[str]:
    """Return all names of brokers and controllers."""
    namespace = settings.namespace
    found = ["kafka", f"kafka.{namespace}", f"kafka.{namespace}.svc", f"kafka.{namespace}.svc.cluster.local"]
    found += [f"*.{name}-nodes.{namespace}.svc.cluster.local" for name in ("kafka", "kafka-controller")]
    outside = resolve_exposure(settings, "kafka")
    if outside.by != "none" and outside.host:
        found += [outside.host.replace("{node}", str(node)) for node in range(settings.kafka.nodes)]
    return list(dict.fromkeys(found))


def _nodes_secret(settings: Settings) -> str:
    """Return its name, which differs when the names of nodes do: what was signed is kept, and lacks the new ones."""
    names = hashlib.sha256("\n".join(hosts(settings)).encode()).hexdigest()[:8]
    return f"{NODES}-{version(settings)}-{names}"


class KafkaSecurity(pulumi.ComponentResource):
    """Secrets of nodes, of who gives rights, and of users; nothing where connections are plain."""

    def __init__(
        self,
        settings: Settings,
        root: Secret | None,
        authority: Authority,
        after: list[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("effectively-once:platform:KafkaSecurity", "kafka-security", None, opts)
        self._after = after
        made = values(settings)
        if made is not None and root is not None:
            self._secret(
                made.tls_secret, settings.namespace, authority.sign(partial(_nodes, hosts(settings))), kept=True
            )
            self._secret(
                made.admin_secret, settings.namespace, authority.sign(partial(sign_pair, MAY_ALL[1], ())), kept=True
            )
            drawn = partial(_passwords, [*made.users], settings.security.rotation)
            self._secret(made.users_secret, settings.namespace, root.data.apply(drawn))
            for user in made.users:
                own = partial(_login, user, settings.security.rotation)
                data = pulumi.Output.all(root.data, authority.bundle).apply(own)
                self._secret(f"{user.replace('_', '-')}{KAFKA_SUFFIX}", settings.pipelines_namespace, data)
        self.register_outputs({})

    def _secret(self, name: str, namespace: str, data: Any, *, kept: bool = False) -> None:
        ignored = ["data"] if kept else []
        opts = pulumi.ResourceOptions(parent=self, depends_on=self._after, ignore_changes=ignored)
        make_secret(name, namespace, "kafka", data, opts)


def _nodes(names: Sequence[str], authority: Certificate, bundle: str) -> dict[str, str]:
    made = sign(authority, MAY_ALL[0], names)
    return {CA: bundle, "keystore.pem": encode(made.key + made.certificate)}


def _password(root: Mapping[str, str], user: str, rotation: int) -> str:
    return derive(root[KEY], f"kafka/{user}", 0 if user == CAMPAIGNS else rotation)


def _passwords(users: Sequence[str], rotation: int, root: Mapping[str, str]) -> dict[str, str]:
    return {user: encode(_password(root, user, rotation)) for user in users}


def _login(user: str, rotation: int, both: Sequence[Any]) -> dict[str, str]:
    root, bundle = both
    return {**login(MECHANISM, user, _password(root, user, rotation)), CA: bundle}
