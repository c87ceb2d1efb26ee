"""Who connects to whom."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.settings.field_types import Cidr, Port
from infra.settings.section import Section


class NetworkPolicies(Section):
    """Who connects to whom, in force where the cluster's network knows policies.

    Attributes:
        enabled: without them everybody may connect to everybody.
        api_server: addresses of Kubernetes' API server, as pods reach it and as it reaches pods. None: anywhere.
        api_server_ports: of its Service, and its own.
        dns: of name servers that are no pods of the cluster's own. The default is that of a cache on every node.
    """

    enabled: bool = True
    api_server: tuple[Cidr, ...] = ()
    api_server_ports: Annotated[tuple[Port, ...], Field(min_length=1)] = (443, 6443)
    dns: tuple[Cidr, ...] = ("169.254.20.10/32",)
