"""Taking secrets out of what is shown to others: by name, by shape, and by the values that Secrets hold."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

REMOVED = "[removed]"
SHORTEST = 6
"""Shorter values are not searched for in texts: they would blank out half of every log."""

_PLAIN_KEYS = re.compile(
    r"(?i)(^|[._-])(user(name)?|rootuser|root_user|host|port|endpoint|region|db|database|type)$|^user"
)
_NAMED = re.compile(r"(?i)(password|passwd|passphrase|secret|token|credentials?|(access|secret|api|private)[._-]?key)$")
_ENVIRONMENT = re.compile(r"(?i)password|passwd|passphrase|secret|token|credential|(access|api|private)[._-]?key")
_ASSIGNED = re.compile(
    r"(?i)((?:[\w.-]*(?:password|passwd|passphrase|secret[._-]?(?:access[._-]?)?key|access[._-]?key|api[._-]?key"
    r"|(?:auth|access|bearer)[._-]?token))[\"']?\s*[=:]\s*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;}&]+)"
)
_USERINFO = re.compile(r"(://[^/\s:@]+:)([^/\s@]+)(@)")
_BEARER = re.compile(r"(?i)(\bbearer\s+)([A-Za-z0-9._~+/=-]{8,})")
_FORGET = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")


class Redactor:
    """Removes what is secret; knows the values of the Secrets it was shown."""

    def __init__(self, secrets: Iterable[Mapping[str, Any]] = (), plain: Iterable[str] = ()) -> None:
        """`secrets` are Secret objects as the API gives them; `plain` are words that are none, whoever uses them so."""
        self._needles: dict[str, str] = {}
        self._plain = set(plain)
        self._names: set[str] = set()
        for one in secrets:
            self._learn(one)
        longest_first = sorted(self._needles, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """A text without secrets: known values, assignments by name, passwords in URLs, bearer tokens."""
        if self._pattern:
            text = self._pattern.sub(lambda found: f"[removed: {self._needles[found[0]]}]", text)
        text = _ASSIGNED.sub(self._redact_assignment, text)
        text = _USERINFO.sub(rf"\1{REMOVED}\3", text)
        return _BEARER.sub(rf"\1{REMOVED}", text)

    def leak(self, text: str) -> str | None:
        """Which Secret's value is in the text, None when none is."""
        found = self._pattern.search(text) if self._pattern else None
        return self._needles[found[0]] if found else None

    def tree(self, value: Any) -> Any:
        """An object of JSON types without secrets; what a Secret holds is reduced to its keys."""
        if isinstance(value, dict):
            if value.get("kind") == "Secret" and not {"metadata", "data", "stringData"}.isdisjoint(value):
                return self._secret(value)
            return self._mapping(value)
        if isinstance(value, list):
            return [self.tree(one) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def _mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        is_variable = isinstance(value.get("name"), str) and isinstance(value.get("value"), str)
        result: dict[str, Any] = {}
        for key, one in value.items():
            if key in _FORGET:
                continue
            hidden = isinstance(one, str) and bool(one) and one not in self._names
            if (hidden and is_variable and key == "value" and _ENVIRONMENT.search(value["name"])) or (
                hidden and _NAMED.search(key)
            ):
                result[key] = REMOVED
            else:
                result[key] = self.tree(one)
        return result

    def _secret(self, secret: dict[str, Any]) -> dict[str, Any]:
        kept = {key: self.tree(one) for key, one in secret.items() if key not in ("data", "stringData", "metadata")}
        meta = {key: one for key, one in (secret.get("metadata") or {}).items() if key not in ("annotations", *_FORGET)}
        held = {**(secret.get("data") or {}), **(secret.get("stringData") or {})}
        return {**kept, "metadata": self.tree(meta), "keys": sorted(held)}

    def _redact_assignment(self, found: re.Match[str]) -> str:
        name, value = found.groups()
        bare = value.strip("\"'")
        known = bare in self._names or bare.startswith(("[removed", "${", "$("))
        return found[0] if known else f"{name}{REMOVED}"

    def _learn(self, secret: Mapping[str, Any]) -> None:
        meta = secret.get("metadata") or {}
        self._names.add(str(meta.get("name", "")))
        where = f"secret {meta.get('namespace', '')}/{meta.get('name', '')}"
        for key, encoded in (secret.get("data") or {}).items():
            if _PLAIN_KEYS.search(key):
                continue
            self._add(str(encoded), f"{where} {key}")
            try:
                raw = base64.b64decode(str(encoded), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                continue
            for value in _values(raw):
                self._add(value, f"{where} {key}")

    def _add(self, value: str, where: str) -> None:
        for form in {value, value.strip(), quote(value, safe=""), json.dumps(value)[1:-1]}:
            if len(form) >= SHORTEST and form not in self._plain:
                self._needles.setdefault(form, where)


def _values(raw: str) -> list[str]:
    """A value, its lines (logs break it up), and what is named secret in it when it is JSON (registry logins)."""
    found = [raw, *(line for line in raw.splitlines() if len(line) >= 2 * SHORTEST)]
    try:
        parsed = json.loads(raw)
    except ValueError:
        return found
    waiting = [parsed]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found += [leaf for key, leaf in one.items() if isinstance(leaf, str) and not _PLAIN_KEYS.search(key)]
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return found
