"""The object store over S3's HTTP interface, with conditional puts.

minio-py has no argument for the conditions, so it signs requests (presigned URLs, its public interface) and urllib3
sends them.
"""

from __future__ import annotations

import base64
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import structlog
import tenacity
import urllib3
from minio.error import InvalidResponseError, S3Error, ServerError

from effectively_once import points
from effectively_once.declared import TEXT, require
from effectively_once.errors import AccessError, SettingsError, UnreachableError
from effectively_once.ledger.objects import (
    Absent,
    Answer,
    Delete,
    Found,
    Get,
    Gone,
    Lost,
    Put,
    Refused,
    Request,
    Written,
)
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY, client, connections, not_believed, without_query

PATIENCE_S = 30.0
"""A store that restarts is back within some 10 s; three times that before the pipeline gives up."""
LOST_WAIT_S = 0.2
ANSWER_S = 10.0
"""How long one answer is waited for."""
VALID = timedelta(minutes=10)
"""From its date on a signature is good for so long. S3 also takes one whose date is up to 15 minutes ahead."""
PLAIN = b"HTTP request to an HTTPS server"
"""A server of Go's says so in the clear to who speaks no TLS, with status 400."""
CLOCKS_DIFFER = timedelta(minutes=1)
"""Below this a refusal is not about the date."""
ABOUT_DATE = (b"RequestTimeTooSkewed", b"Request has expired", b"Request is not valid yet")

log = structlog.get_logger()


class UnansweredError(Exception):
    """The store did not answer, or answered with a 5xx: worth asking again."""


class FullError(UnansweredError):
    """The store says that it is full: asked again too, as somebody may be making room."""


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """Where the bucket is. Credentials come from the environment, so that they are in no file and no log."""

    endpoint: str
    bucket: str

    def __post_init__(self) -> None:
        """Refuse what is no address. Raises SettingsError."""
        require(self, endpoint=TEXT, bucket=TEXT)
        if not self.endpoint.startswith(("http://", "https://")):
            raise SettingsError(
                f"endpoint {self.endpoint!r} does not say how it is spoken to",
                "BucketAddress",
                'Correct it: endpoint="http://host:port", or https.',
            )

    @property
    def host(self) -> str:
        """Host and port, without the scheme."""
        return self.endpoint.split("://", 1)[1]

    @property
    def secure(self) -> bool:
        """Whether the endpoint speaks TLS."""
        return self.endpoint.startswith("https://")


class S3ObjectStore:
    """One bucket. Answers requests of the protocol, and moves whole objects for everything else."""

    def __init__(self, address: BucketAddress, patience_s: float = PATIENCE_S, *, answer_s: float = ANSWER_S) -> None:
        self.address = address
        self._patience_s = patience_s
        # How far the store's clock is ahead of ours, as far as it matters for signatures.
        self._ahead = timedelta()
        # When the present row of unanswered puts began, and when its last one was.
        self._lost_first = self._lost_last = -math.inf
        self._http = connections(answer_s, maxsize=8)
        self._signer = client(address.host, secure=address.secure, http=self._http)

    def answer(self, request: Request) -> Answer:
        """Carry out one protocol request; a put whose answer did not arrive is `Lost`, never repeated here."""
        match request:
            case Get(key):
                return self._get(key)
            case Delete(key):
                points.reach("delete", key=key)
                self._ask("DELETE", key)
                return Gone()
            case Put(key, body, etag):
                points.reach("put", key=key)
                written = self._put(key, body, etag)
                points.reach("put_done", key=key)
                return written

    def check(self, key: str) -> None:
        """Fail early and clearly: store unreachable, credentials wrong, bucket missing.

        Args:
            key: a name that this client has to be let read.

        """
        # Its refusal says in a body why, and a missing object is as good an answer as a found one.
        self._ask("GET", key)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of all objects below a prefix, in order: for checkpoints and tools, never for state (R5)."""
        yield from self._patiently(self._list_names, prefix)

    def _get(self, key: str) -> Answer:
        response = self._ask("GET", key)
        if response.status == 404:
            return Absent()
        return Found(response.data, response.headers["ETag"].strip('"'))

    def _put(self, key: str, body: bytes, etag: str | None) -> Answer:
        md5 = hashlib.md5(body, usedforsecurity=False).digest()
        condition = {"If-None-Match": "*"} if etag is None else {"If-Match": f'"{etag}"'}
        headers = {"Content-MD5": base64.b64encode(md5).decode(), **condition}
        try:
            response = self._send("PUT", key, body, headers)
        except UnansweredError as error:
            # The protocol settles a lost answer by reading, and then sends again: at once when reads are answered. A
            # store that takes no writes (disk full) would be asked in a tight loop, and for ever.
            now = time.monotonic()
            if now - self._lost_last > self._patience_s:
                self._lost_first = now
            self._lost_last = now
            if now - self._lost_first > self._patience_s:
                raise self._unreachable(error) from error
            time.sleep(LOST_WAIT_S)
            return Lost()
        self._lost_last = -math.inf
        if response.status in (404, 409, 412) and b"NoSuchBucket" not in response.data:
            # 404: If-Match on an object that is gone. 409: another conditional put is under way.
            return Refused() if response.status != 409 else Lost()
        if response.status != 200:
            raise self._refusal_error(response.status, key, response.data)
        return Written(response.headers["ETag"].strip('"'))

    def _ask(self, verb: str, key: str) -> Any:
        """Send a request that may be repeated without harm until it is answered or patience ends."""
        response = self._patiently(self._send, verb, key, None, {})
        missing_bucket = response.status == 404 and b"NoSuchBucket" in response.data
        if response.status not in (200, 204, 404) or missing_bucket:
            raise self._refusal_error(response.status, key, response.data)
        return response

    def _patiently(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(UnansweredError),
                wait=tenacity.wait_random_exponential(multiplier=0.1, max=2.0),
                stop=tenacity.stop_after_delay(self._patience_s),
                reraise=True,
            )(ask, *arguments)
        except UnansweredError as error:
            raise self._unreachable(error) from error

    def _list_names(self, prefix: str) -> list[str]:
        with self._name_failures(prefix):
            found = self._signer.list_objects(self.address.bucket, prefix=prefix, recursive=True)
            return [str(item.object_name) for item in found]

    @contextmanager
    def _name_failures(self, prefix: str) -> Iterator[None]:
        """Give what the client raises while it lists the names that `_patiently` and callers know."""
        try:
            yield
        except S3Error as error:
            if error.response.status >= 500:
                raise UnansweredError(f"HTTP {error.response.status}") from error
            raise self._refusal_error(error.response.status, prefix, str(error.code).encode()) from error
        except InvalidResponseError as error:
            if PLAIN.decode() in str(error):
                raise self._refusal_error(400, prefix, PLAIN) from error
            raise UnansweredError(str(error)) from error
        except (ServerError, urllib3.exceptions.HTTPError) as error:
            raise not_believed(error, self.address.endpoint) or UnansweredError(str(error)) from error

    def _send(self, verb: str, key: str, body: bytes | None, headers: dict[str, str]) -> Any:
        ahead = self._ahead
        response = self._send_signed(verb, key, body, headers, ahead)
        if response.status == 403 and (now := _ahead_of_us(response)) is not None and abs(now - ahead) > CLOCKS_DIFFER:
            # Refused for its date, before anything was done: signed again by the store's clock, also a put.
            log.warning("clocks differ", store=self.address.endpoint, store_is_ahead_s=round(now.total_seconds()))
            self._ahead = now
            response = self._send_signed(verb, key, body, headers, now)
        if response.status == 507 or (response.status >= 500 and b"StorageFull" in response.data):
            raise FullError(f"HTTP {response.status}")
        if response.status >= 500:
            raise UnansweredError(f"HTTP {response.status}")
        if verb == "GET" and (wrong := unproven(response.status, response.headers, response.data)):
            raise UnansweredError(wrong)
        return response

    def _send_signed(self, verb: str, key: str, body: bytes | None, headers: dict[str, str], ahead: timedelta) -> Any:
        date = datetime.now(UTC) + ahead
        try:
            # It may ask for credentials first.
            url = self._signer.get_presigned_url(verb, self.address.bucket, key, expires=VALID, request_date=date)
            return self._http.request(verb, url, body=body, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise not_believed(error, self.address.endpoint) or UnansweredError(without_query(error)) from error

    def _unreachable(self, error: Exception) -> UnreachableError:
        if isinstance(error, FullError):
            return UnreachableError(
                f"the object store has no room left and takes no writes ({error})",
                self.address.endpoint,
                "Make room on its disk, or expire old versions; nothing was lost, start the pipeline again.",
            )
        return UnreachableError(
            f"the object store does not answer: {str(error)[:200]}",
            self.address.endpoint,
            "Check that it runs and that the endpoint is right; nothing was lost, start the pipeline again.",
        )

    def _refusal_error(self, status: int, key: str, data: bytes = b"") -> AccessError:
        where = f"{self.address.endpoint}/{self.address.bucket}/{key}"
        if b"NoSuchBucket" in data:
            return AccessError("the bucket does not exist", where, "Create it, or correct the name in the settings.")
        if PLAIN in data:
            return AccessError(
                "the object store speaks TLS, and is asked without", where, "Write https:// before its address."
            )
        if b"InvalidAccessKeyId" in data or b"SignatureDoesNotMatch" in data:
            return AccessError(
                "the object store refuses the credentials", where, f"Correct {ACCESS_KEY} and {SECRET_KEY}."
            )
        if any(words in data for words in ABOUT_DATE):
            return AccessError(
                "the clock here and that of the object store differ too much for a signature",
                where,
                "Set the clock of this machine right; nothing was lost, start the pipeline again.",
            )
        return AccessError(f"the object store answers HTTP {status}", where, "Check the permissions of the access key.")


def unproven(status: int, headers: Mapping[str, str], body: bytes) -> str:
    """Say why an answer to a GET proves neither an object's content nor that there is none; empty where it does.

    A body without a length ends where its connection does, so a connection that was cut would end it too. And 404 is
    said by whatever stands before a store that is away; S3 says in a body that there is no such object.
    """
    if status == 404:
        return "" if b"NoSuch" in body else "HTTP 404, and not in the words of an object store"
    if status != 200:
        return ""
    length = headers.get("Content-Length")
    if "ETag" not in headers:
        return "an object without an ETag, so not from an object store"
    if length is None and "chunked" not in headers.get("Transfer-Encoding", ""):
        return f"{len(body)} bytes, and no word of how many there are"
    return "" if length is None or int(length) == len(body) else f"{len(body)} of {length} bytes"


def _ahead_of_us(response: Any) -> timedelta | None:
    """How far the clock of who answered is ahead of ours; None when the answer has no date."""
    try:
        date: datetime = parsedate_to_datetime(response.headers.get("Date", ""))
    except ValueError:
        return None
    return date - datetime.now(UTC)


@lru_cache(maxsize=4)
def shared_store(address: BucketAddress) -> S3ObjectStore:
    """One store per process and address: connections are kept between tasks of a Python worker."""
    return S3ObjectStore(address)
