"""An authority of the platform's own: made once, kept by the state, and believed by whoever connects to a server."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.certificates import Certificate, CertificateError, find_openssl, make_authority, sign
from infra.components.clients import CA, encode
from infra.components.secret import make_secret
from infra.settings import Settings

NAME: Final = "platform-authority"
_KEPT_BEFORE: Final = ("kafka-security", "effectively-once:platform:KafkaSecurity")
"""Name and type of the component that had them while brokers alone showed certificates."""


def needed(settings: Settings) -> bool:
    """Return whether a server of ours shows a certificate."""
    return settings.security.kafka or settings.security.object_store or settings.security.result_store


def find_wrong(settings: Settings) -> Iterator[str]:
    """Yield why certificates cannot be made on this machine, where servers of ours show some."""
    if needed(settings):
        try:
            find_openssl()
        except CertificateError as error:
            yield f"security: {error}"


class Authority(pulumi.ComponentResource):
    """Secrets of authorities, which are mounted nowhere; none where no server of ours shows a certificate.

    An authority and what it has signed are kept by the state, as passwords are. Another number gives others under
    another name, so that pods which use those of before go on until they are started anew. Whoever believes an
    authority believes the one before it and the next one, which is made ahead: servers are started anew one by one, and
    those of both numbers have to believe each other.

    Attributes:
        bundle: certificates to believe, PEM in base64; None where there are none.
    """

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:Authority", "authority", None, opts)
        self._settings, self._after = settings, after
        self.bundle: Any = None
        if needed(settings):
            number = settings.security.authority
            numbers = [number, number + 1, *([number - 1] if number else [])]
            authorities = [self._make(one).data for one in numbers]
            self._current = authorities[0]
            self.bundle = pulumi.Output.all(*authorities).apply(_bundle)
        self.register_outputs({})

    def sign(self, make: Callable[[Certificate, str], dict[str, str]]) -> Any:
        """Return the data of a Secret: what `make` returns of the authority and the bundle."""
        both = pulumi.Output.all(self._current, self.bundle)
        return both.apply(lambda told: make(Certificate(_text(told[0], "tls.crt"), _text(told[0], "tls.key")), told[1]))

    def _make(self, number: int) -> Secret:
        made = make_authority(f"effectively-once {self._settings.namespace} {number}")
        name = f"{NAME}-{number}"
        opts = pulumi.ResourceOptions(
            parent=self,
            depends_on=self._after,
            ignore_changes=["data"],
            aliases=[pulumi.Alias(parent=pulumi.create_urn(*_KEPT_BEFORE))],
        )
        return make_secret(name, self._settings.namespace, "platform", _pair(made), opts)


def sign_pair(name: str, hosts: Sequence[str], authority: Certificate, bundle: str) -> dict[str, str]:
    """Return the data of a Secret with whom to believe, and a certificate with its key for `name` at `hosts`."""
    return {CA: bundle, **_pair(sign(authority, name, hosts))}


def _pair(made: Certificate) -> dict[str, str]:
    return {"tls.crt": encode(made.certificate), "tls.key": encode(made.key)}


def _bundle(authorities: Sequence[Mapping[str, str]]) -> str:
    return encode("".join(_text(one, "tls.crt") for one in authorities))


def _text(data: Mapping[str, str], key: str) -> str:
    return base64.b64decode(data[key]).decode()
