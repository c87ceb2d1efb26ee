"""Secrets that are copied: by key, and refused by name."""

from __future__ import annotations

import pytest

from infra.components.credentials import pick
from infra.settings import SettingsError

KEYS = {"AWS_ACCESS_KEY_ID": "rootUser", "AWS_SECRET_ACCESS_KEY": "rootPassword"}


def test_values_come_under_their_new_names() -> None:
    found = pick({"rootUser": "dQ==", "rootPassword": "cA==", "more": "x"}, KEYS, "vault/s3")
    assert found == {"AWS_ACCESS_KEY_ID": "dQ==", "AWS_SECRET_ACCESS_KEY": "cA=="}


@pytest.mark.parametrize(("found", "says"), [({"rootUser": "dQ=="}, "lacks rootPassword"), (None, "it has: none")])
def test_a_secret_that_lacks_a_key_is_named_and_no_value_is_told(found: dict[str, str] | None, says: str) -> None:
    with pytest.raises(SettingsError, match="Secret vault/s3") as refused:
        pick(found, KEYS, "vault/s3")
    assert says in str(refused.value)
    assert "dQ==" not in str(refused.value)
