"""Volumes, and what becomes of them."""

from __future__ import annotations

from infra.settings.section import Section


class Storage(Section):
    """Volumes of all StatefulSets.

    Attributes:
        storage_class: None takes the cluster's default class.
        delete_volumes: `pulumi destroy` removes data, passwords and the platform's namespace too.
    """

    storage_class: str | None = None
    delete_volumes: bool = False
