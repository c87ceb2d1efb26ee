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
from dataclasses import dataclass, field
from pathlib import Path

import urllib3
from minio import Minio

from effectively_once.errors import PipelineError
from effectively_once.ledger.objects import Absent, Answer, Found, Get, Lost, Put, Written
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.embedded.ports import HOST, free_ports
from infra.embedded.process import Child, wait_for
from infra.toolchain.prepare import prepare

BUCKET, FORMER, NEWER = "data", b"former", b"newer"
START_S, SEEN_S, ANSWER_S = 60.0, 60.0, 5.0


@dataclass
class Drives:
    """Servers of one object store on this machine, each with a drive; clients ask the first one."""

    binary: Path
    folder: Path
    ports: list[int]
    servers: dict[int, Child] = field(default_factory=dict)

    def start(self, number: int) -> None:
        """Start a server; it knows the others by their addresses."""
        address = f"{HOST}:{self.ports[number]}"
        drives = [f"http://{HOST}:{port}{self.folder / f'drive-{each}'}" for each, port in enumerate(self.ports)]
        words: list[str | Path] = [
            self.binary,
            "server",
            "--quiet",
            "--certs-dir",
            self.folder / "certs",
            "--address",
            address,
            *drives,
        ]
        env = {
            "HOME": str(self.folder),
            "MINIO_ROOT_USER": os.environ[ACCESS_KEY],
            "MINIO_ROOT_PASSWORD": os.environ[SECRET_KEY],
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            # A drive may be a folder of the root's file system.
            "MINIO_CI_CD": "on",
            # In a container it would not take an address of loopback for its own.
            "_MINIO_SERVER_LOCAL": address,
        }
        log = self.folder / f"server-{number}.log"
        self.servers[number] = Child(f"server {number}", words, log, cwd=self.folder, env=env)

    def kill(self, number: int) -> None:
        """SIGKILL a server, and wait for its end."""
        self.servers.pop(number).kill()

    def wait(self, number: int, health: str) -> None:
        """Wait until a server says `live`, or that the store is whole (`cluster`)."""
        url = f"http://{HOST}:{self.ports[number]}/minio/health/{health}"
        with urllib3.PoolManager(retries=False, timeout=ANSWER_S) as http:
            wait_for(url, START_S, lambda: http.request("GET", url).status == 200, self.servers[number])

    def client(self) -> Minio:
        """Make a client of the first server."""
        keys = os.environ[ACCESS_KEY], os.environ[SECRET_KEY]
        return Minio(f"{HOST}:{self.ports[0]}", *keys, secure=False, region="us-east-1")


def main(argv: Sequence[str] | None = None) -> int:
    """Try it; see the module."""
    parser = argparse.ArgumentParser(prog="minio_three_drives", description=__doc__)
    parser.add_argument("--drives", type=int, default=3, choices=(3, 4))
    parser.add_argument("--objects", type=int, default=200, help="so many at once, since healing is quick")
    parser.add_argument("--tries", type=int, default=5, help="at most so many")
    args = parser.parse_args(argv)
    binary = prepare().minio
    os.environ[ACCESS_KEY], os.environ[SECRET_KEY] = "reproduction", os.urandom(16).hex()
    for number in range(1, args.tries + 1):
        with tempfile.TemporaryDirectory(prefix="minio-drives-") as folder:
            drives = Drives(binary, Path(folder), free_ports(args.drives))
            try:
                read, gone, created = lose_sight(drives, args.objects)
            finally:
                for each in [*drives.servers]:
                    drives.kill(each)
        sys.stdout.write(f"try {number}: of {args.objects} {read} read, {gone} gone (404), {created} created anew\n")
        if gone:
            return 0
    return 1


def lose_sight(drives: Drives, objects: int) -> tuple[int, int, int]:
    """Return how many objects are read as they were written last, are not found, and of these are created anew."""
    names, last = [f"object-{number:04}" for number in range(objects)], len(drives.ports) - 1
    for number in range(len(drives.ports)):
        drives.start(number)
    for number in range(len(drives.ports)):
        drives.wait(number, "cluster")
    client = drives.client()
    client.make_bucket(BUCKET)
    for body, before in ((FORMER, None), (NEWER, last)):
        if before is not None:
            drives.kill(before)
        for name in names:
            client.put_object(BUCKET, name, io.BytesIO(body), len(body))
    drives.start(last)
    drives.wait(last, "live")
    drives.kill(1)
    store = S3ObjectStore(BucketAddress(f"http://{HOST}:{drives.ports[0]}", BUCKET), ANSWER_S, answer_s=ANSWER_S)
    # The first server sees the one that came back after some seconds; until then it answers 503.
    wait_for("an answer", SEEN_S, lambda: store.answer(Get(names[-1])) is not None)
    found = {name: _ask(store, Get(name)) for name in names}
    gone = [name for name, answer in found.items() if isinstance(answer, Absent)]
    created = [name for name in gone if isinstance(_ask(store, Put(name, b"another", None)), Written)]
    read = [name for name, answer in found.items() if isinstance(answer, Found) and answer.body == NEWER]
    return len(read), len(gone), len(created)


def _ask(store: S3ObjectStore, request: Get | Put) -> Answer:
    try:
        return store.answer(request)
    except PipelineError:
        return Lost()


if __name__ == "__main__":
    sys.exit(main())
