"""Users of a Kafka and what each may do: made as a file says, by who may give rights. Safe to run again.

Run as `python -m effectively_once grant FILE`, with one file of a password for each user in a folder.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pydantic import BaseModel, ConfigDict

from effectively_once.errors import PipelineError, UnreachableError
from effectively_once.kafka_client import client_config, refusal
from effectively_once.operate.grants_file import read_grants

ITERATIONS: Final = 4096
"""Of SCRAM; what Kafka asks for at least. Passwords are drawn, so more would protect nothing."""
REQUEST_S: Final = 10.0
PAUSE_S: Final = 1.0
KINDS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    # The client's word for it.
    "cluster": ResourceType.BROKER,
}


class Right(BaseModel):
    """What a user may do with names.

    Attributes:
        name: of one topic, group or transactional id; with `prefixed` of all that begin with it; `*` of all. The
            cluster's is `kafka-cluster`.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["topic", "group", "transactional_id", "cluster"]
    name: str
    prefixed: bool = False
    operations: tuple[Literal["READ", "WRITE", "CREATE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALL"], ...]

    def bindings(self, user: str) -> Iterable[AclBinding]:
        """Yield one for each operation."""
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        for name in self.operations:
            operation, allow = AclOperation[name], AclPermissionType.ALLOW
            yield AclBinding(KINDS[self.kind], self.name, pattern, f"User:{user}", "*", operation, allow)


class Grants(BaseModel):
    """The file: user -> rights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap: str
    users: dict[str, tuple[Right, ...]]


def grant(admin: Any, grants: Grants, passwords: Mapping[str, str], say: Callable[[str], object]) -> None:
    """Give each user its password, the rights of the file, and no others.

    What users have that the file does not name is left alone: they are somebody else's.

    Raises:
        KafkaException: a request is refused or not answered.

    """
    for user, password in sorted(passwords.items()):
        told = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
        upsertion = UserScramCredentialUpsertion(user, told, password.encode())
        for future in admin.alter_user_scram_credentials([upsertion], request_timeout=REQUEST_S).values():
            future.result()
        say(f"user {user} has its password")
    wanted = {binding for user, rights in grants.users.items() for right in rights for binding in right.bindings(user)}
    there = {binding for user in grants.users for binding in _of(admin, user)}
    # New ones first: whoever is at work keeps what both have.
    if missing := sorted(wanted - there, key=str):
        for future in admin.create_acls(missing, request_timeout=REQUEST_S).values():
            future.result()
    if surplus := sorted(there - wanted, key=str):
        filters = [_only(binding) for binding in surplus]
        for future in admin.delete_acls(filters, request_timeout=REQUEST_S).values():
            future.result()
    say(f"{len(wanted)} rights of {len(grants.users)} users: {len(missing)} are new, {len(surplus)} were taken back")


def _of(admin: Any, user: str) -> Iterable[AclBinding]:
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
    )
    found: Iterable[AclBinding] = admin.describe_acls(anything, request_timeout=REQUEST_S).result()
    return found


def _only(one: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        one.restype,
        one.name,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )


def _patiently(work: Callable[[], None], admin: Any, bootstrap: str, deadline_s: float) -> None:
    until = time.monotonic() + deadline_s
    while True:
        try:
            return work()
        except KafkaException as error:
            cause = error.args[0]
            if (refused := refusal(cause, bootstrap, "users and rights", admin)) is not None:
                raise refused from error
            if time.monotonic() > until:
                raise UnreachableError(
                    f"users and rights are not given: {cause.str()}", bootstrap, "Check that the broker runs."
                ) from error
        time.sleep(PAUSE_S)


def main(argv: Sequence[str]) -> int:
    """Read the command line, do it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m effectively_once grant", description=__doc__)
    parser.add_argument("file", type=Path, help="users and their rights")
    parser.add_argument("--passwords", type=Path, required=True, help="folder with a file for each user")
    parser.add_argument("--deadline-s", type=float, default=300.0, help="seconds that brokers may take to answer")
    given = parser.parse_args(argv)
    try:
        grants, passwords = read_grants(Grants, given.file, given.passwords)
        admin = AdminClient(client_config(grants.bootstrap))
        work = partial(grant, admin, grants, passwords, print)
        _patiently(work, admin, grants.bootstrap, given.deadline_s)
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0
