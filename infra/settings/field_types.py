"""Types of fields, each with what is allowed in it."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, Field

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Label = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Bucket = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
Topics = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}(,[A-Za-z0-9._-]{1,200})*$")]
"""A topic, or several with commas between them."""
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)$")]
"""With its offset from UTC: `2026-03-01T00:00:00Z`."""
Place = Annotated[str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9][A-Za-z0-9_.-]*)+$")]
"""A prefix of a bucket, as `s3://backups/orders`."""
Schedule = Annotated[str, Field(pattern=r"^(@(hourly|daily|weekly|monthly)|\S+( \S+){4})$")]
"""What cron understands, in UTC: `17 3 * * *`, or `@daily`."""
Endpoint = Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
Bootstrap = Annotated[str, Field(pattern=r"^[^\s:,]+:\d+(,[^\s:,]+:\d+)*$")]
ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
"""Of a Secret or a class of the cluster, which may have dots."""
KeyName = Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]{1,253}$")]
"""Of an entry of a Secret."""
SecretReference = Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9]*/[a-z0-9][-a-z0-9.]*$")]
Job = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$")]
Module = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Cidr = Annotated[str, AfterValidator(lambda text: str(ip_network(text)))]
"""Addresses, as `10.0.0.0/8`."""
Identity = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9_]{0,38}[a-z0-9])?$")]
"""Of a pipeline; also the name of a user of our broker, which is an identity too."""
NodePort = Annotated[int, Field(ge=30000, le=32767)]


DIGEST = "@sha256:[0-9a-f]{64}$"
"""How a reference ends that names an image by what is in it."""
TAG = "(^|/)[^/:@]+:[^/:@]+$"
"""How one ends that has a tag."""
_REFERENCE = re.compile(r"[^\s@]+(@sha256:[0-9a-f]{64})?")


def is_pinned(image: str) -> bool:
    """Return whether an image is named by a digest."""
    return bool(re.search(DIGEST, image))


def is_tagged(image: str) -> bool:
    """Return whether an image is named by a digest, or by a tag that is not the one which moves."""
    return is_pinned(image) or (bool(re.search(TAG, image)) and not image.endswith(":latest"))


def _pinned(reference: str) -> str:
    if not (_REFERENCE.fullmatch(reference) and is_tagged(reference)):
        raise ValueError(
            f"a reference with a digest (@sha256: and 64 hex digits), or a tag other than `latest`, is allowed, got "
            f"{reference!r}: what runs must not change under its name"
        )
    return reference


PinnedImage = Annotated[str, AfterValidator(_pinned)]
