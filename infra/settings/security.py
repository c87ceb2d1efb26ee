"""What is encrypted and asks for a login."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.settings.section import Section


class Security(Section):
    """What is encrypted and asks for a login inside the cluster; off until it is named.

    Attributes:
        level: `all`: spark, and each of the three servers that is ours, but for those that are named as false.
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

    level: Literal["each", "all"] = "each"
    spark: bool = False
    kafka: bool = False
    object_store: bool = False
    campaigns: bool = False
    pinned_images: bool = False
    result_store: bool = False
    authority: Annotated[int, Field(ge=0)] = 0
    rotation: Annotated[int, Field(ge=0)] = 0
