"""MinIO on three drives says 404 of objects that it has, and creates others in their place.

    python -m tests.upstream.minio_three_drives [--drives 3] [--objects 200] [--tries 5]

An object of three drives is written by two. Each try keeps one server away, overwrites all objects, starts that server,
which then has their former versions, and kills another one before the first is healed. No two of the drives that are
left agree. MinIO answers 404 where it could not tell, and lets `If-None-Match: *` pass for the same reason
(docs/adr/0107). Of four drives two always agree: `--drives 4` shows that it is not so there.

Exit codes: 0 it is so; 1 it is not so, in any try.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from minio import Minio

from effectively_once.errors import PipelineError
from effectively_once.ledger.objects import Absent, Answer, Found, Get, Lost, Put, Written
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.embedded.object_store import REGION
from infra.embedded.process import wait_for
from tests.drives import ANSWER_S, Drives

BUCKET, FORMER, NEWER = "data", b"former", b"newer"
START_S, SEEN_S = 60.0, 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Try it; see the module."""
    parser = argparse.ArgumentParser(prog="minio_three_drives", description=__doc__)
    parser.add_argument("--drives", type=int, default=3, choices=(3, 4))
    parser.add_argument("--objects", type=int, default=200, help="so many at once, since healing is quick")
    parser.add_argument("--tries", type=int, default=5, help="at most so many")
    args = parser.parse_args(argv)
    user, password = "reproduction", os.urandom(16).hex()
    os.environ |= {ACCESS_KEY: user, SECRET_KEY: password}
    for number in range(1, args.tries + 1):
        with tempfile.TemporaryDirectory(prefix="minio-drives-") as folder:
            keys = {"MINIO_ROOT_USER": user, "MINIO_ROOT_PASSWORD": password}
            drives = Drives(Path(folder), args.drives, keys)
            try:
                read, gone, created = lose_sight(drives, args.objects)
            finally:
                drives.kill_all()
        sys.stdout.write(f"try {number}: of {args.objects} {read} read, {gone} gone (404), {created} created anew\n")
        if gone:
            return 0
    return 1


def lose_sight(drives: Drives, objects: int) -> tuple[int, int, int]:
    """Return how many objects are read as they were written last, are not found, and of these are created anew."""
    names, last = [f"object-{number:04}" for number in range(objects)], len(drives.urls) - 1
    first = drives.urls[0]
    client = Minio(
        first.rpartition("/")[2], os.environ[ACCESS_KEY], os.environ[SECRET_KEY], secure=False, region=REGION
    )

    def write(body: bytes) -> None:
        for name in names:
            client.put_object(BUCKET, name, io.BytesIO(body), len(body))

    for number in range(last + 1):
        drives.start(number)
    for number in range(last + 1):
        _wait(drives, number, "cluster")
    client.make_bucket(BUCKET)
    write(FORMER)
    drives.kill(last)
    write(NEWER)
    drives.start(last)
    _wait(drives, last, "live")
    drives.kill(1)
    store = S3ObjectStore(BucketAddress(first, BUCKET), ANSWER_S, answer_s=ANSWER_S)
    # The first server sees the one that came back after some seconds; until then it answers 503.
    wait_for("an answer", SEEN_S, lambda: store.answer(Get(names[-1])) is not None)
    found = {name: _ask(store, Get(name)) for name in names}
    gone = [name for name, answer in found.items() if isinstance(answer, Absent)]
    created = [name for name in gone if isinstance(_ask(store, Put(name, b"another", None)), Written)]
    read = [name for name, answer in found.items() if isinstance(answer, Found) and answer.body == NEWER]
    return len(read), len(gone), len(created)


def _wait(drives: Drives, number: int, health: str) -> None:
    what = f"server {number} to be {health}"
    wait_for(what, START_S, lambda: drives.is_healthy(number, health), drives.servers[number])


def _ask(store: S3ObjectStore, request: Get | Put) -> Answer:
    try:
        return store.answer(request)
    except PipelineError:
        return Lost()


if __name__ == "__main__":
    sys.exit(main())
