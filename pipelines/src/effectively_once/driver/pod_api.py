"""The Kubernetes API as a pod asks it for pods of its namespace: with its own token, past which nothing is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import urllib3

HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT_HTTPS"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S = 10.0
GONE = (404, 409)
"""Nobody is there of this name, or somebody else is."""


class PodApiError(Exception):
    """The API does not answer, or refuses; the message says which."""


class PodApi:
    """Pods of one namespace.

    Args:
        url: of the API.
        namespace: of the pods.
        account: folder of this pod's token and of the authority that signed the API's certificate.

    """

    def __init__(self, url: str, namespace: str, account: Path = ACCOUNT) -> None:
        self._pods, self._account = f"{url}/api/v1/namespaces/{namespace}/pods", account
        authority = account / "ca.crt"
        self._http = urllib3.PoolManager(
            timeout=TIMEOUT_S, retries=False, ca_certs=str(authority) if authority.exists() else None
        )

    @classmethod
    def of_this_pod(cls, namespace: str) -> PodApi:
        """Return the API of the cluster that this process is in."""
        host = os.environ[HOST]
        return cls(f"https://{f'[{host}]' if ':' in host else host}:{os.environ.get(PORT, '443')}", namespace)

    def read(self, selector: str) -> list[dict[str, Any]]:
        """Return the pods with these labels. Raises PodApiError."""
        # From the API server's cache, as Spark's own polls.
        body = self._ask("GET", self._pods, fields={"labelSelector": selector, "resourceVersion": "0"})
        try:
            return list(json.loads(body)["items"])
        except (ValueError, KeyError, TypeError) as error:
            raise PodApiError(f"the list of pods cannot be read: {error!r}") from error

    def delete(self, name: str, uid: str) -> None:
        """Delete a pod, if it is still the one of this uid. Raises PodApiError."""
        options = json.dumps({"preconditions": {"uid": uid}}).encode()
        self._ask("DELETE", f"{self._pods}/{name}", body=options, but=GONE)

    def _ask(self, verb: str, url: str, *, but: tuple[int, ...] = (), **more: Any) -> bytes:
        try:
            # It is replaced while it is in use.
            token = (self._account / "token").read_text().strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            answer = self._http.request(verb, url, headers=headers, **more)
        except (OSError, urllib3.exceptions.HTTPError) as error:
            raise PodApiError(f"{verb} pods: {type(error).__name__}") from error
        if answer.status >= 400 and answer.status not in but:
            raise PodApiError(f"{verb} pods: HTTP {answer.status}")
        return bytes(answer.data)
