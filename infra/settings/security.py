"""What is encrypted and asks for a login."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import Field

from infra.settings.section import Section

ALL: Final = "all"
EACH: Final = "each"
SERVERS: Final = ("kafka", "object_store", "result_store")
"""Settings of the three servers that the platform runs, unless somebody brings them."""


class Security(Section):
    """What is encrypted and asks for a login inside the cluster: everything, until configuration says otherwise.

    What the level says is resolved where configuration is read (`infra.settings.load`).

    Attributes:
        level: `all`: spark, and each of the three servers that is ours, but for those that are named as false.
            `each`: those that are named as true, and nothing else.
        spark: driver and executors of a pipeline know each other by a secret and encrypt what they say; their page asks
            for a password.
        kafka: TLS on every listener of our broker, a login for each pipeline, and rights on its own names alone.
        result_store: TLS on every connection to our PostgreSQL, and a role for each pipeline, for its own tables alone.
        object_store: TLS on every connection to our object store, and keys for each pipeline, of its own folders alone.
        campaigns: a login of our broker that may do everything, for campaigns and acceptance on this cluster; they have
            the owners' logins of the stores.
        pinned_images: every image is named by a digest, and pods with another are refused.
        rotation: raise it to have every derived secret, and every certificate, anew. Keys of the object store open it
            until it is raised again.
        authority: raise it by one to have them signed by another authority. The one before and the next are believed
            with it, so that nodes of both numbers hear each other.
    """

    level: Literal["each", "all"] = ALL
    spark: bool = False
    kafka: bool = False
    object_store: bool = False
    campaigns: bool = False
    pinned_images: bool = False
    result_store: bool = False
    authority: Annotated[int, Field(ge=0)] = 0
    rotation: Annotated[int, Field(ge=0)] = 0

    def as_named(self, named: Iterable[str]) -> Self:
        """Return the same, which says that configuration named these fields, and no other."""
        return type(self).model_construct(_fields_set={*named}, **dict(self))

    def is_asked(self, server: str) -> bool:
        """Return whether configuration asks for what a server has, so that it is no mere default."""
        return not {"level", server}.isdisjoint(self.model_fields_set)
