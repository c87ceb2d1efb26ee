"""The checksum of JSON is of its content in one spelling, which whoever reads JSON can come to."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from effectively_once.ledger import checksum

CONTENT: dict[str, Any] = {"b": ["ü", None, {"z": 1, "a": True}], "a": "€"}
SPELT = '{"a":"€","b":["ü",null,{"a":true,"z":1}]}'.encode()


def test_it_is_sha256_of_json_with_its_keys_in_order_without_white_space_in_utf_8() -> None:
    assert checksum.canonical(CONTENT) == SPELT
    assert checksum.of(CONTENT) == hashlib.sha256(SPELT).hexdigest()


def test_content_is_read_back_however_it_is_spelt_and_another_one_is_refused() -> None:
    body = checksum.seal(CONTENT)
    told = json.loads(body)
    assert told == CONTENT | {checksum.FIELD: checksum.of(CONTENT)}
    for spelling in (body, json.dumps(told, indent=1).encode(), json.dumps(dict(reversed(told.items()))).encode()):
        assert checksum.open_sealed(spelling) == (CONTENT, True)
    for wrong in (told | {"a": "$"}, told | {"c": 1}, told | {checksum.FIELD: "0" * 64}):
        with pytest.raises(ValueError, match="its checksum is wrong"):
            checksum.open_sealed(json.dumps(wrong).encode())
    assert checksum.open_sealed(SPELT) == (CONTENT, False)
    with pytest.raises(ValueError, match="it is no JSON object"):
        checksum.open_sealed(b"[]")


def test_text_that_is_none_is_refused() -> None:
    """Half of a character is not UTF-8, and so has no spelling."""
    with pytest.raises(ValueError, match="surrogates not allowed"):
        checksum.canonical({"a": "\ud800"})
