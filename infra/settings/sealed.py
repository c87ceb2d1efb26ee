"""Values that were set with `--secret`: which ones they are, and that none goes where everybody reads.

Pulumi hands a program all values decrypted, and tells of whole keys only that something below them is secret. Which
value that is says the stack's file alone, where its ciphertext stands.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from infra.settings.refused import SettingsError
from infra.settings.section import PROJECT

Where = tuple[str | int, ...]
"""A value's key, and the way from there: `("pipelines", "clicks", "environment", "TOKEN")`."""

WAY_OUT: Final = (
    "it was set with --secret, and would stand in plain text in objects of the cluster; only values below "
    "pipelines.<name>.environment may be secret"
)


def sealed_values(keys: Iterable[str], file: Path) -> dict[Where, str]:
    """Return the ciphertexts below some secret keys of the stack's file.

    Raises SettingsError naming the keys where the file does not tell.
    """
    wanted = sorted(keys)
    if not wanted:
        return {}
    try:
        config = (yaml.safe_load(file.read_text()) or {}).get("config") or {}
    except (OSError, yaml.YAMLError, AttributeError):
        config = {}
    found: dict[Where, str] = {}
    for key in wanted:
        below = dict(_ciphertexts(config.get(f"{PROJECT}:{key}", config.get(key)), (key,)))
        if not below:
            raise SettingsError(
                [f"{key}: something below it is secret, and {file} does not tell what; keep the stack's settings there"]
            )
        found |= below
    return found


def _ciphertexts(value: object, where: Where) -> Iterator[tuple[Where, str]]:
    if isinstance(value, Mapping):
        if value.keys() == {"secure"} and isinstance(value["secure"], str):
            yield where, value["secure"]
            return
        for name, one in value.items():
            yield from _ciphertexts(one, (*where, str(name)))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _ciphertexts(one, (*where, index))


def set_apart(config: Mapping[str, object], sealed: Mapping[Where, str]) -> dict[str, Any]:
    """Return the configuration with secret variables of pipelines taken out of what is plain.

    They go from `environment` to `secret_environment`, each with its ciphertext. Raises SettingsError for a secret
    anywhere else, by name and without its value.
    """
    result: dict[str, Any] = copy.deepcopy(dict(config))
    pipelines = result.get("pipelines")
    named = (
        pipelines.items()
        if isinstance(pipelines, dict)
        else enumerate(pipelines if isinstance(pipelines, list) else [])
    )
    wrong = [
        f"pipelines.{name}.secret_environment: set the values below pipelines.{name}.environment, with --secret"
        for name, one in named
        if isinstance(one, Mapping) and "secret_environment" in one
    ]
    for where, ciphertext in sealed.items():
        name = ".".join(map(str, where))
        if len(where) != 4 or (where[0], where[2]) != ("pipelines", "environment"):
            wrong.append(f"{name}: {WAY_OUT}; set it again without --secret")
            continue
        try:
            pipeline = result["pipelines"][where[1]]
            value = pipeline["environment"].pop(where[3])
        except (KeyError, IndexError, TypeError):
            value = None
        if not isinstance(value, str):
            wrong.append(f"{name}: it was set with --secret and is no text; set it again")
            continue
        pipeline.setdefault("secret_environment", {})[where[3]] = {"value": value, "sealed": ciphertext}
    if wrong:
        raise SettingsError(wrong)
    return result
