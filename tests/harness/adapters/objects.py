"""The object store as an observer reads it: with minio's client, and without a line of the product's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import certifi
import tenacity
import urllib3
from minio import Minio
from minio.error import InvalidResponseError, S3Error, ServerError

from effectively_once.store.object_store import PATIENCE_S, BucketAddress
from effectively_once.store.s3_client import ACCESS_KEY, CERTIFICATES, SECRET_KEY

_T = TypeVar("_T")


class Objects:
    """One bucket. A store that does not answer, or fails, is asked again for so long."""

    def __init__(self, address: BucketAddress, patience_s: float = PATIENCE_S) -> None:
        self._bucket, self._patience_s = address.bucket, patience_s
        believed = os.environ.get(CERTIFICATES) or certifi.where()
        http = urllib3.PoolManager(timeout=urllib3.Timeout(connect=2.0, read=10.0), retries=False, ca_certs=believed)
        # The region is named so that signing needs no request.
        self._client = Minio(
            address.host,
            os.environ[ACCESS_KEY],
            os.environ[SECRET_KEY],
            secure=address.secure,
            region="us-east-1",
            http_client=http,
        )

    def body(self, name: str) -> bytes | None:
        """Content of an object, None where the store says that there is none."""
        return self._patiently(lambda: self._body(name))

    def names(self, prefix: str) -> list[str]:
        """Names of all objects below a prefix, in order."""
        return self._patiently(
            lambda: [str(one.object_name) for one in self._client.list_objects(self._bucket, prefix, recursive=True)]
        )

    def delete(self, prefix: str) -> int:
        """Delete every object below a prefix; how many those were."""
        names = self.names(prefix)
        for name in names:
            self._patiently(lambda name=name: self._client.remove_object(self._bucket, name))  # type: ignore[misc]
        return len(names)

    def destroy(self) -> None:
        """Delete every object and the bucket itself; of one that is gone nothing is left to do.

        Raises:
            S3Error: somebody put an object meanwhile.
        """
        if self._patiently(lambda: self._client.bucket_exists(self._bucket)):
            self.delete("")
            self._patiently(lambda: self._client.remove_bucket(self._bucket))

    def _body(self, name: str) -> bytes | None:
        try:
            answer: Any = self._client.get_object(self._bucket, name)
        except S3Error as refused:
            if refused.code == "NoSuchKey":
                return None
            raise
        try:
            # A body that ends before its length raises: urllib3 counts.
            content: bytes = answer.read()
            return content
        finally:
            answer.close()
            answer.release_conn()

    def _patiently(self, ask: Callable[[], _T]) -> _T:
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(_may_pass),
            wait=tenacity.wait_random_exponential(0.1, max=2.0),
            stop=tenacity.stop_after_delay(self._patience_s),
            reraise=True,
        )(ask)


def _may_pass(error: BaseException) -> bool:
    """Whether the store is away or busy, and not of another opinion."""
    if isinstance(error, S3Error):
        return bool(error.response.status >= 500)
    return isinstance(error, ServerError | InvalidResponseError | urllib3.exceptions.HTTPError)
