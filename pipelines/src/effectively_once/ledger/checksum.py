"""The checksum that objects of JSON carry in themselves: of their content, not of the bytes they are stored as.

It is SHA-256 over the content without the field `checksum`, as JSON with its keys in order, without white space, in
UTF-8. So whoever reads JSON can check it, and a version that writes the same content otherwise comes to the same.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

FIELD = "checksum"


def canonical(content: Any) -> bytes:
    """Return content as JSON in its one spelling. Raises ValueError for text that is none."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def of(content: Any) -> str:
    """Return the checksum of content: 64 hexadecimal digits."""
    return hashlib.sha256(canonical(content)).hexdigest()


def seal(content: dict[str, Any]) -> bytes:
    """Return content and its checksum, as an object holds them."""
    return canonical({**content, FIELD: of(content)})


def open_sealed(body: bytes) -> tuple[dict[str, Any], bool]:
    """Return what an object holds without its checksum, and whether it has one: objects of before have none.

    Raises:
        ValueError: it is no JSON object, or its checksum is another one.

    """
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - the content is wrong, not a type
    told = content.pop(FIELD, None)
    if told is not None and told != of(content):
        raise ValueError("its checksum is wrong")
    return content, told is not None
