"""What plans of experiments have in common: dataclasses of sizes, which are options, and are written as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from tests.harness.workload.errors import InputError

P = TypeVar("P")


def demand(plan: object, **least: int) -> None:
    """Refuse sizes of a plan that are below these. Raises InputError."""
    for name, number in least.items():
        if getattr(plan, name) < number:
            raise InputError(f"{name} is {getattr(plan, name)}: it must be {number} or more")


def plan_of(kind: type[P], told: Mapping[str, Any]) -> P:
    """Read a plan that was written as JSON, which has no tuples.

    Raises:
        InputError: it cannot be played.
        TypeError: it is none.

    """
    return kind(**{name: tuple(one) if isinstance(one, list) else one for name, one in told.items()})
