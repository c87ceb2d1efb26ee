"""How an object store is spoken to: region, certificates and credentials, from the environment under AWS's names.

They are in no settings file, since every process of a pipeline needs them and most are secrets; whoever runs pods for
AWS finds them set already.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import ParseError

import certifi
import urllib3
from minio import Minio
from minio.credentials import IamAwsProvider, Provider, StaticProvider
from minio.credentials.credentials import Credentials

from effectively_once.errors import AccessError, SettingsError

ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
REGION = "us-east-1"
"""What a store answers to that has no regions."""
CERTIFICATES = "AWS_CA_BUNDLE"
"""A file of certificates (PEM) in the place of those that everybody trusts."""
TOKEN_FILE, ROLE, ISSUER = "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ENDPOINT_URL_STS"
"""A token that names this pod, what it is to become, and who exchanges the one for credentials of an hour."""


def region(environment: Mapping[str, str] = os.environ) -> str:
    """Return the region that requests are signed for; it is named so that signing needs no request."""
    return next((value for name in REGIONS if (value := environment.get(name))), REGION)


def connections(read_s: float, maxsize: int = 1) -> urllib3.PoolManager:
    """Return connections that wait `read_s` seconds for an answer and repeat nothing.

    Raises:
        SettingsError: the certificates are named and cannot be read.

    """
    named = os.environ.get(CERTIFICATES)
    if named and not (Path(named).is_file() and os.access(named, os.R_OK)):
        raise SettingsError(
            f"the certificates {named} cannot be read",
            f"environment variable {CERTIFICATES}",
            "Name a readable file of certificates (PEM), or leave it out.",
        )
    return urllib3.PoolManager(
        maxsize=maxsize,
        timeout=urllib3.Timeout(connect=2.0, read=read_s),
        retries=False,
        ca_certs=named or certifi.where(),
    )


def client(host: str, *, secure: bool, http: urllib3.PoolManager) -> Minio:
    """Return a client of the store at host:port.

    Raises:
        SettingsError: there are no credentials.

    """
    return Minio(host, credentials=provider(http), secure=secure, region=region(), http_client=http)


def provider(http: urllib3.PoolManager) -> Provider:
    """Return where credentials come from: a pair of keys, else a token that names this pod.

    Raises:
        SettingsError: neither is there, or one of the pair is missing.

    """
    keys = [os.environ.get(name, "") for name in (ACCESS_KEY, SECRET_KEY)]
    if all(keys):
        return StaticProvider(*keys, os.environ.get(SESSION_TOKEN) or None)
    if os.environ.get(TOKEN_FILE) and not any(keys):
        return _WebIdentity(http)
    raise SettingsError(
        "credentials of the object store are missing",
        f"environment variable {(ACCESS_KEY, SECRET_KEY)[keys.index('')]}",
        f"Set it, or {TOKEN_FILE} and {ROLE} where pods have an identity.",
    )


def without_query(error: Exception) -> str:
    """What a client says, without a query of an address: there signatures and tokens are."""
    return re.sub(r"\?\S*", "?…", str(error))


_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""What OpenSSL says where an answer is no TLS; which one depends on its version and on the first bytes."""


def not_believed(error: Exception, endpoint: str) -> AccessError | None:
    """Return the error that asking again does not help against: what is there is not known, or speaks no TLS.

    None for every other one, such as a handshake that ended with the server.
    """
    why = error.args[0] if isinstance(error, urllib3.exceptions.SSLError) and error.args else None
    if isinstance(why, ssl.SSLCertVerificationError):
        return AccessError(
            f"the certificate of the object store is refused: {why.verify_message}",
            endpoint,
            f"Check that {CERTIFICATES} names the store's authority, and that the certificate is for this host; "
            "nothing was lost.",
        )
    if isinstance(why, ssl.SSLError) and any(one in str(why) for one in _NO_TLS):
        return AccessError(
            "the object store does not speak TLS", endpoint, "Write http://, or turn TLS on there; nothing was lost."
        )
    return None


_PASSING = re.compile(r"HTTP status code (429|5\d\d)$")
"""What an issuer says that is asked too often, or starts again. Any other status is a refusal."""
_WITHOUT_AN_ANSWER = re.compile(r"HTTP status code \d{3}$|^error in reading file ")
"""What the client says of a status or of the token's file. Anything else it says of an answer that it cannot read."""


class _WebIdentity(Provider):  # type: ignore[misc]
    """Credentials for a pod's token; renewed before they expire, from the file that Kubernetes renews."""

    def __init__(self, http: urllib3.PoolManager) -> None:
        self._file, self._issuer = os.environ[TOKEN_FILE], os.environ.get(ISSUER) or None
        self._found = IamAwsProvider(custom_endpoint=self._issuer, http_client=http, region=region())

    def retrieve(self) -> Credentials:
        try:
            return self._found.retrieve()
        except (ValueError, ParseError) as error:
            # What it says has the token in it.
            if said := _PASSING.search(str(error)):
                raise urllib3.exceptions.HTTPError(f"the issuer of credentials answers {said[0]}") from None
            if not _WITHOUT_AN_ANSWER.search(str(error)):
                raise AccessError(
                    "the issuer of credentials for the object store answers without credentials",
                    self._issuer or "the STS of AWS",
                    f"Check {ISSUER}, and that no proxy answers in the issuer's place.",
                ) from None
            raise AccessError(
                "the token of this pod is not exchanged for credentials of the object store",
                f"{self._issuer or 'the STS of AWS'}, token {self._file}",
                f"Check {ROLE}, and that the role trusts the issuer of the token and the pod's service account.",
            ) from None
