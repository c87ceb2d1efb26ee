"""The bucket of a pipeline, with the folder of Spark's event logs."""

from __future__ import annotations

import io
from typing import Any, NoReturn

import urllib3
from minio import Minio
from minio.error import InvalidResponseError, S3Error, ServerError

from effectively_once.errors import AccessError
from effectively_once.operate.create.wait import REQUEST_TIMEOUT_S, NotYetError
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY, client, connections, not_believed, without_query

EVENT_LOG = "spark-events/"
"""The folder of Spark's event logs. Spark refuses to start when it is missing, so it gets an empty object."""
_DENIED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_MADE = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")


def make_bucket(client: Any, bucket: str, folder: str | None = None) -> None:
    """Make a bucket unless it exists, with a folder of event logs when asked; `client` is a `minio.Minio`.

    Raises:
        NotYetError: the store does not answer.
        AccessError: it refuses.

    """
    try:
        if not client.bucket_exists(bucket):
            _make_unless_made(client, bucket)
        if folder is not None:
            client.put_object(bucket, folder, io.BytesIO(b""), 0)
    except S3Error as error:
        _raise_refusal(error, bucket)
    except (urllib3.exceptions.HTTPError, ServerError, InvalidResponseError) as error:
        raise not_believed(error, f"bucket {bucket}") or NotYetError(without_query(error)[:300]) from error


def _make_unless_made(client: Any, bucket: str) -> None:
    try:
        client.make_bucket(bucket)
    except S3Error as error:
        # Somebody was quicker; whether it is ours to use shows at the first write.
        if error.code not in _MADE:
            raise


def _raise_refusal(error: S3Error, bucket: str) -> NoReturn:
    if error.code in _DENIED:
        raise AccessError(
            f"the object store refuses: {error.code}", f"bucket {bucket}", f"Check {ACCESS_KEY} and {SECRET_KEY}."
        ) from error
    raise NotYetError(f"{error.code}: {error.message}") from error


def store(settings: PipelineSettings) -> Minio:
    """Return a client of the object store that the bucket is in."""
    http = connections(REQUEST_TIMEOUT_S)
    return client(settings.bucket.host, secure=settings.bucket.secure, http=http)
