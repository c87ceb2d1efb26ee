"""The API of a cluster: objects and logs by path, every request with a time-out. Nothing is changed through it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import urllib3

from infra.errors import UserError

CONNECT_S = 5.0
READ_S = 20.0
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SILENCE_S = 300.0
"""After this much silence a followed log is asked for again: a connection that died tells nobody."""


class ClusterError(UserError):
    """Something about the cluster or the stack on it that an operator can act on; the message says what to do."""


class UnreachableError(ClusterError):
    """The cluster does not answer."""


class ApiError(ClusterError):
    """The cluster answered with an error; `status` is the HTTP status."""

    def __init__(self, status: int, message: str, path: str) -> None:
        super().__init__(f"the cluster answered {status} to {path}: {message}")
        self.status, self.answer = status, message


class Lines(Protocol):
    """Lines as they come, until the other side ends or `close` is called from any thread."""

    def __iter__(self) -> Iterator[str]:
        """The lines, without their ends."""
        ...

    def close(self) -> None:
        """End the iteration, also one that waits in another thread. Safe to repeat."""
        ...


class Reader(Protocol):
    """What the operator's commands need of a cluster."""

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """The JSON object at `path`. Raises ApiError, UnreachableError."""
        ...

    def text(self, path: str, **query: str) -> str:
        """The text at `path`, a log for instance. Raises ApiError, UnreachableError."""
        ...

    def follow(self, path: str, **query: str) -> Lines:
        """The text at `path` as it grows. Raises ApiError, UnreachableError."""
        ...


class Api:
    """A cluster through the `kubernetes` package, which knows kubeconfigs with all their ways to log in."""

    def __init__(self, kubeconfig: Path, context: str | None) -> None:
        """Without `context` the kubeconfig's current one is taken. Nothing is asked yet.

        Raises UnreachableError when the kubeconfig is missing or does not hold the context.
        """
        from kubernetes import config  # noqa: PLC0415 - 1.5 s that commands without a cluster need not wait
        from kubernetes.client import Configuration  # noqa: PLC0415

        configuration: Any = Configuration()
        load: Any = config.new_client_from_config
        # Once: urllib3 would try four times by itself, and an operator wants the answer.
        configuration.retries = 0
        try:
            self._client: Any = load(
                str(kubeconfig), context=context, persist_config=False, client_configuration=configuration
            )
        except (config.ConfigException, OSError) as error:
            raise UnreachableError(
                f"{kubeconfig} gives no cluster: {_one_line(error)}; `make up` makes one, or set KUBECONFIG"
            ) from error
        self._host = str(configuration.host)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """The JSON object at `path`. Raises ApiError, UnreachableError."""
        return self._parse(self._body(path, query), path)

    def may(self, verb: str, group: str, resource: str) -> bool:
        """Whether we may do this to every object of a cluster-wide resource. Raises ApiError, UnreachableError."""
        asked = {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": asked}
        answer = self._parse(self._body(REVIEWS, {}, review), REVIEWS)
        return bool((answer.get("status") or {}).get("allowed"))

    @staticmethod
    def _parse(body: bytes, path: str) -> dict[str, Any]:
        try:
            found = json.loads(body)
        except ValueError as error:
            raise ApiError(200, f"no JSON: {body[:80]!r}", path) from error
        if not isinstance(found, dict):
            raise ApiError(200, f"no JSON object: {body[:80]!r}", path)
        return found

    def find(self, path: str) -> dict[str, Any] | None:
        """The JSON object at `path`, None when there is none. Raises ApiError otherwise, UnreachableError."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def text(self, path: str, **query: str) -> str:
        """The text at `path`. Raises ApiError, UnreachableError."""
        return self._body(path, query).decode(errors="replace")

    def follow(self, path: str, **query: str) -> Lines:
        """The text at `path` as it grows. Raises ApiError, UnreachableError."""
        return _Stream(self._open(path, query, SILENCE_S))

    def _body(self, path: str, query: dict[str, str], given: dict[str, Any] | None = None) -> bytes:
        answer = self._open(path, query, READ_S, given)
        try:
            return bytes(answer.data)
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from error
        finally:
            answer.release_conn()

    def _open(self, path: str, query: dict[str, str], read_s: float, given: dict[str, Any] | None = None) -> Any:
        """Ask for `path`; what is `given` is handed to it, for an answer that the cluster does not keep."""
        method, url, headers, body, _ = self._client.param_serialize(
            "POST" if given else "GET",
            path,
            query_params=list(query.items()),
            header_params={
                "Accept": "application/json, */*",
                **({"Content-Type": "application/json"} if given else {}),
            },
            body=given,
            auth_settings=["BearerToken"],
        )
        limits = (CONNECT_S, read_s)
        try:
            answer = self._client.call_api(method, url, headers, body, _request_timeout=limits).response
            if answer.status >= 400:
                raise ApiError(answer.status, _message(bytes(answer.data)), path)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        return answer

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(
            f"the cluster at {self._host} does not answer: {_one_line(error)}; is it running? "
            "`make up` starts the local one; else look at KUBECONFIG"
        )


class _Stream:
    """A response read line by line."""

    def __init__(self, answer: Any) -> None:
        self._answer, self._closed = answer, False

    def __iter__(self) -> Iterator[str]:
        rest = b""
        try:
            while chunk := self._answer.read1(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace")
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            # Closed from outside, or gone: either way there is nothing more here, and who follows asks again.
            return
        finally:
            self.close()
        if rest:
            yield rest.decode(errors="replace")

    def close(self) -> None:
        """End it; a read that waits in another thread returns."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError, ValueError, RuntimeError):  # it may have ended by itself
            self._answer.shutdown()
        self._answer.release_conn()


def _message(body: bytes) -> str:
    """What the API's Status object says, else the beginning of whatever came."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return _one_line(body.decode(errors="replace"))


def _one_line(what: object) -> str:
    return " ".join(str(what).split())[:300]
