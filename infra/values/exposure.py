"""How clients outside the cluster reach a service of a chart."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.values.common import KubernetesName, NodePort, Part, Port


class Exposure(Part):
    """One service, as it is seen from outside.

    Attributes:
        by: `none`: it is not.
        host: name or address that clients use; an Ingress answers for this name alone.
        port: that clients use, where a load balancer or the way to a node port listens.
        node_port: in the cluster.
        annotations: of Service or Ingress, for the controller that serves it.
        ingress_class: the cluster's default unless named.
        tls_secret: of the release's namespace, with the certificate that an Ingress shows.
    """

    by: Literal["none", "NodePort", "LoadBalancer", "Ingress"] = "none"
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Port
    node_port: NodePort
    annotations: dict[str, str] = Field(default_factory=dict)
    ingress_class: KubernetesName | None = None
    tls_secret: KubernetesName | None = None

    @property
    def url(self) -> str | None:
        """Where a browser begins, None when it is not exposed."""
        return self.url_of(encrypted=False)

    def url_of(self, *, encrypted: bool) -> str | None:
        """Return it, of a server that speaks TLS itself or not; an Ingress speaks for it in its own way."""
        shown = self.tls_secret is not None if self.by == "Ingress" else encrypted
        scheme, usual = ("https", 443) if shown else ("http", 80)
        port = "" if self.port == usual else f":{self.port}"
        return None if self.by == "none" else f"{scheme}://{self.host}{port}"
