"""Users of a MinIO and below which names each may read and write: made as a file says, by who owns the store.

Run as `python -m effectively_once grant-objects FILE`, with one file of a password for each user in a folder, and the
owner's keys in the environment. Safe to run again.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

import urllib3
from minio import MinioAdmin
from minio.error import InvalidResponseError, MinioAdminException, S3Error, ServerError
from pydantic import BaseModel, ConfigDict, Field, model_validator

from effectively_once.errors import AccessError, PipelineError, UnreachableError
from effectively_once.operate.grants_file import read_grants
from effectively_once.store.s3_client import (
    ACCESS_KEY,
    SECRET_KEY,
    client,
    connections,
    not_believed,
    provider,
    region,
    without_query,
)

REQUEST_S: Final = 10.0
PAUSE_S: Final = 1.0
SERVER_ERROR: Final = 500
OURS: Final = "effectively-once."
"""Begins the names of our policies; who has one of them is a user of ours."""
_BUCKET: Final = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
_FOLDER: Final = r"^([A-Za-z0-9][A-Za-z0-9_.-]*/)+$"
"""No wildcard, and a slash at the end: `a` is no part of `ab`."""
_OF_OBJECTS: Final = ("GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload", "ListMultipartUploadParts")


class Right(BaseModel):
    """What a policy lets read and write: all that lies in a folder of a bucket."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bucket: Annotated[str, Field(pattern=_BUCKET)]
    folder: Annotated[str, Field(pattern=_FOLDER)]


class Grants(BaseModel):
    """The file.

    Attributes:
        endpoint: http://host:port or https://host:port of the store.
        policies: name -> rights.
        users: access key -> policy.
        folders: those that have to be there before whoever writes into them; their buckets are made in any case.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
    policies: dict[str, tuple[Right, ...]]
    users: dict[str, str]
    folders: tuple[Right, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if unknown := sorted({*self.users.values()} - {*self.policies}):
            raise ValueError(f"users have policies that are not there: {', '.join(unknown)}")
        return self

    @property
    def buckets(self) -> list[str]:
        """All buckets that anything is about."""
        rights = [right for each in self.policies.values() for right in each]
        return sorted({right.bucket for right in (*rights, *self.folders)})


def policy_of(rights: Iterable[Right]) -> dict[str, Any]:
    """Return the policy as S3 has it.

    A client that may not list cannot tell an object that is not there from one that it may not see, hence the right to
    list. It names its prefix twice: one of them asks for some prefix, the other one for no further.
    """
    statements: list[dict[str, Any]] = []
    for bucket in sorted({right.bucket for right in rights}):
        arn = f"arn:aws:s3:::{bucket}"
        folders = sorted({right.folder for right in rights if right.bucket == bucket})
        below = {"s3:prefix": [f"{folder}*" for folder in folders]}
        # Hadoop asks for a folder by its name without the slash too.
        objects = [f"{arn}/{name}" for folder in folders for name in (folder.removesuffix("/"), f"{folder}*")]
        statements += [
            _allow(("GetBucketLocation", "HeadBucket"), [arn]),
            {**_allow(("ListBucket",), [arn]), "Condition": {"StringLike": below, "ForAllValues:StringLike": below}},
            _allow(_OF_OBJECTS, objects),
        ]
    return {"Version": "2012-10-17", "Statement": statements}


def _allow(actions: Sequence[str], resources: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": [f"s3:{action}" for action in actions], "Resource": resources}


def grant(admin: Any, store: Any, grants: Grants, passwords: Mapping[str, str], say: Callable[[str], object]) -> None:
    """Make buckets and folders, policies, users with their passwords; then take users of ours away that are no more.

    Args:
        admin: a `minio.MinioAdmin`.
        store: a `minio.Minio`.
        grants: what is wanted.
        passwords: of each user.
        say: is told what was done.

    Raises:
        MinioException: a request is refused.

    """
    for bucket in grants.buckets:
        if not store.bucket_exists(bucket):
            store.make_bucket(bucket)
    for one in grants.folders:
        store.put_object(one.bucket, one.folder, io.BytesIO(b""), 0)
    for name, rights in sorted(grants.policies.items()):
        admin.policy_add(f"{OURS}{name}", policy=policy_of(rights))
    for user, policy in sorted(grants.users.items()):
        admin.user_add(user, passwords[user])
        admin.policy_set(f"{OURS}{policy}", user=user)
    there = json.loads(admin.user_list())
    gone = sorted(user for user, facts in there.items() if _is_ours(facts) and user not in grants.users)
    for user in gone:
        admin.user_remove(user)
    say(f"{len(grants.users)} users of {', '.join(grants.buckets)} have their rights; {len(gone)} were taken away")


def _is_ours(facts: Mapping[str, Any]) -> bool:
    return str(facts.get("policyName") or "").startswith(OURS)


def _patiently(work: Callable[[], None], endpoint: str, deadline_s: float) -> None:
    until = time.monotonic() + deadline_s
    while True:
        try:
            return work()
        except (MinioAdminException, S3Error) as error:
            said = _error_text(error)
            if not _passes(error):
                raise AccessError(
                    f"the object store refuses: {said}", endpoint, f"Check {ACCESS_KEY} and {SECRET_KEY}: the owner's."
                ) from None
        except (urllib3.exceptions.HTTPError, ServerError, InvalidResponseError) as error:
            if refused := not_believed(error, endpoint):
                raise refused from None
            said = without_query(error)[:300]
        if time.monotonic() > until:
            raise UnreachableError(f"users and rights are not given: {said}", endpoint, "Check that the store runs.")
        time.sleep(PAUSE_S)


def _error_text(error: MinioAdminException | S3Error) -> str:
    return str(error.code) if isinstance(error, S3Error) else str(error).partition(", Body")[0]


def _passes(error: MinioAdminException | S3Error) -> bool:
    """Whether a store that starts, or has too much to do, says so."""
    if isinstance(error, S3Error):
        return bool(error.response.status >= SERVER_ERROR)
    # It has no other name.
    return int(error._code) >= SERVER_ERROR


def main(argv: Sequence[str]) -> int:
    """Read the command line, do it, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m effectively_once grant-objects", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("file", type=Path, help="users, their policies, and what these let read and write")
    parser.add_argument("--passwords", type=Path, required=True, help="folder with a file for each user")
    parser.add_argument("--deadline-s", type=float, default=300.0, help="seconds that the store may take to answer")
    given = parser.parse_args(argv)
    try:
        grants, passwords = read_grants(Grants, given.file, given.passwords)
        address, http = urlsplit(grants.endpoint), connections(REQUEST_S)
        how: dict[str, Any] = {"secure": address.scheme == "https", "region": region(), "http_client": http}
        admin = MinioAdmin(endpoint=address.netloc, credentials=provider(http), **how)
        store = client(address.netloc, secure=how["secure"], http=http)
        _patiently(lambda: grant(admin, store, grants, passwords, print), grants.endpoint, given.deadline_s)
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0
