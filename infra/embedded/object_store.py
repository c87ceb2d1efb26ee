"""A real MinIO server on one directory, with credentials of its own for every run, or for data that are kept."""

from __future__ import annotations

import secrets
from pathlib import Path

import urllib3
from minio import Minio
from minio.error import S3Error

from infra.embedded.ports import HOST
from infra.embedded.process import Child, wait_for
from infra.embedded.server import Server

START_TIMEOUT_S = 30.0  # under 1 s on an idle machine
BUCKET = "effectively-once"
REGION = "us-east-1"  # MinIO's default; named so that no client asks for it


class ObjectStore(Server):
    """A store with its data in `work`, log in `log`. Credentials and port stay the same over restarts.

    Attributes:
        authority: of the certificate in `work`/certs; None: there is none, and it speaks plain HTTP.
    """

    name = "object store"
    authority: Path | None = None

    def __init__(
        self, work: Path, log: Path, binary: Path, bucket: str = BUCKET, keys: tuple[str, str] | None = None
    ) -> None:
        """Nothing is started yet. The credentials go to the server by its environment and are in no log.

        `keys` are the access key and the secret key of data that are kept.
        """
        super().__init__(log)
        self._work = work
        self._binary = binary
        self._port = 0
        self.bucket = bucket
        self.access_key, self.secret_key = keys or (secrets.token_hex(8), secrets.token_hex(20))

    @property
    def endpoint(self) -> str:
        """Base URL of the S3 API; the same after a restart."""
        return f"{'http' if self.authority is None else 'https'}://{HOST}:{self._port}"

    def start(self) -> None:
        """Start, return when it answers and the bucket is there.

        Raises ServerError with the server's last log lines. A port that somebody took meanwhile is replaced.
        """
        self._start_on(1, self._at)
        client = self.client()
        if not client.bucket_exists(self.bucket):
            client.make_bucket(self.bucket)

    def read(self, name: str) -> bytes | None:
        """Return an object of the bucket, None when it is not there. Raises S3Error."""
        try:
            answer = self.client().get_object(self.bucket, name)
        except S3Error as error:
            if error.code == "NoSuchKey":
                return None
            raise
        with answer:
            return bytes(answer.data)

    def client(self) -> Minio:
        """Make a client with the root credentials."""
        return Minio(
            f"{HOST}:{self._port}",
            access_key=self.access_key,
            secret_key=self.secret_key,
            secure=self.authority is not None,
            region=REGION,
            # Without an authority it takes a pool of its own, which repeats requests.
            http_client=self._pool() if self.authority is not None else None,
        )

    def _pool(self) -> urllib3.PoolManager:
        believed = None if self.authority is None else str(self.authority)
        return urllib3.PoolManager(retries=False, timeout=2.0, ca_certs=believed)

    def _at(self, ports: list[int], _attempt: int) -> None:
        (self._port,) = ports

    def _launch(self) -> None:
        data = self._work / "data"
        data.mkdir(parents=True, exist_ok=True)
        address = f"{HOST}:{self._port}"
        child = Child(
            "object store",
            [self._binary, "server", "--quiet", "--certs-dir", self._work / "certs", "--address", address, data],
            self._log,
            cwd=self._work,
            env={
                "HOME": str(self._work),
                "MINIO_ROOT_USER": self.access_key,
                "MINIO_ROOT_PASSWORD": self.secret_key,
                "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off",
            },
        )
        self._child = child
        with self._pool() as http:
            url = f"{self.endpoint}/minio/health/cluster"
            wait_for(
                f"object store at {self.endpoint}",
                START_TIMEOUT_S,
                lambda: http.request("GET", url).status == 200 and child.running(),
                child,
            )
