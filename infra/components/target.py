"""Which cluster is meant. A kubeconfig may point anywhere: a context that is not ours has to be confirmed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml
from pulumi_kubernetes import Provider

from infra.settings import Settings, SettingsError

OUR_CONTEXT: Final = "kind-effectively-once"


def kubeconfig_path(environment: Mapping[str, str]) -> Path:
    """Return the kubeconfig file in use. Raises SettingsError for a list of files, which the provider cannot read."""
    named = environment.get("KUBECONFIG", "")
    files = [part for part in named.split(os.pathsep) if part]
    if len(files) > 1:
        raise SettingsError([f"KUBECONFIG: one file is allowed, got {named!r}; name the one of the cluster meant"])
    return Path(files[0]) if files else Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"


def choose(settings: Settings, environment: Mapping[str, str]) -> str:
    """Return the context to deploy into: the configured one, else the kubeconfig's current one.

    Raises SettingsError when there is none, or when it is not ours and `confirm_context` does not name it.
    """
    path = kubeconfig_path(environment)
    try:
        kubeconfig = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(
            [f"context: the kubeconfig {path} cannot be read ({error.__class__.__name__}); set KUBECONFIG or `make up`"]
        ) from error
    kubeconfig = kubeconfig if isinstance(kubeconfig, dict) else {}
    known = [str(one.get("name")) for one in kubeconfig.get("contexts") or []]
    context = settings.context or kubeconfig.get("current-context") or ""
    if context not in known:
        allowed = ", ".join(known) or "none is there"
        raise SettingsError([f"context: {path} has no context {context!r}; allowed: {allowed}"])
    if context not in (OUR_CONTEXT, settings.confirm_context):
        raise SettingsError(
            [
                f"confirm_context: the kubeconfig points at {context!r}, which is not {OUR_CONTEXT!r}; if that cluster "
                f"is meant: pulumi config set confirm_context {context}"
            ]
        )
    return context


def provider(context: str) -> Provider:
    """Return the provider of exactly this context: a later change of the current context does not move the stack."""
    return Provider("cluster", context=context, enable_server_side_apply=True)
