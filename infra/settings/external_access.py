"""How services are reached from outside the cluster, as it is configured; `exposure.py` has what is usual."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.settings.field_types import Label, NodePort, Port
from infra.settings.section import Section


class Exposed(Section):
    """How clients outside the cluster reach one service; None takes what is usual for `by`.

    Attributes:
        by: `none`: they do not. An Ingress speaks HTTP, and Kafka does not.
        host: name or address that clients use; of brokers with a load balancer each, `{node}` is the node's number.
        port: that clients use; Kafka's is that of node 0, others follow.
        node_port: likewise, in the cluster.
        annotations: of the Service or Ingress, for the controller that serves it.
        ingress_class: the cluster's default unless named.
        tls_secret: Secret of the platform's namespace with the certificate of an Ingress.
    """

    by: Literal["none", "NodePort", "LoadBalancer", "Ingress"] = "none"
    host: Annotated[str, Field(min_length=1)] | None = None
    port: Port | None = None
    node_port: NodePort | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    ingress_class: Label | None = None
    tls_secret: Label | None = None


class ExternalAccess(Section):
    """What is reached from outside the cluster; `console` is that of the object store.

    None of it asks for more than its own login, and Kafka and history server ask for none.
    """

    kafka: Exposed = Exposed()
    object_store: Exposed = Exposed()
    console: Exposed = Exposed()
    history_server: Exposed = Exposed()
