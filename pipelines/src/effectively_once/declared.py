"""Types of what a declaration is given: Python does not ask, and the error would come later, without a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from effectively_once.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may be: in words, as it is written, and as a question."""

    told: str
    example: str
    holds: Callable[[Any], bool]


TEXT = Kind("text", '"name"', lambda it: isinstance(it, str))
# True is 1 to Python, and no number of anything.
WHOLE = Kind("a whole number", "60_000", lambda it: isinstance(it, int) and not isinstance(it, bool))
TEXTS = Kind(
    "text, or a tuple, each of it text",
    '"name"',
    lambda it: isinstance(it, str) or (isinstance(it, tuple | list) and all(map(TEXT.holds, it))),
)
FUNCTION = Kind("a function", "events", callable)


def one_of(example: str, *kinds: type) -> Kind:
    """An instance of some class."""
    names = " or ".join(kind.__name__ for kind in kinds)
    return Kind(names, example, lambda it: isinstance(it, kinds))


def none_or(kind: Kind) -> Kind:
    """None, or what the kind says."""
    return Kind(f"{kind.told}, or None", kind.example, lambda it: it is None or kind.holds(it))


def either(one: Kind, other: Kind) -> Kind:
    """What one of two kinds says."""
    return Kind(f"{one.told}, or {other.told}", one.example, lambda it: one.holds(it) or other.holds(it))


def several(kind: Kind) -> Kind:
    """A tuple, or a list that becomes one."""
    return Kind(
        f"a tuple, each of it {kind.told}",
        f"({kind.example},)",
        lambda it: isinstance(it, tuple | list) and all(map(kind.holds, it)),
    )


def by_name(kind: Kind) -> Kind:
    """A mapping of names."""
    return Kind(
        f"a mapping of names to {kind.told}",
        f'{{"name": {kind.example}}}',
        lambda it: isinstance(it, Mapping) and all(TEXT.holds(name) and kind.holds(each) for name, each in it.items()),
    )


def require(declaration: object, **kinds: Kind) -> None:
    """Refuse a declaration with a field that is none of what it may be; lists become tuples.

    Raises:
        SettingsError: see `refuse_other`.

    """
    for name, kind in kinds.items():
        value = getattr(declaration, name)
        refuse_other(name_declaration(declaration), name, value, kind)
        if isinstance(value, list):
            object.__setattr__(declaration, name, tuple(value))


def refuse_other(where: str, name: str, value: object, kind: Kind) -> None:
    """Refuse a value that is none of a kind.

    Raises:
        SettingsError: naming what it is of, what it may be, what was given and what to write.

    """
    if not kind.holds(value):
        shown = repr(value)
        raise SettingsError(
            f"{name} is {kind.told}, not {shown if len(shown) <= 80 else f'{shown[:80]}…'}",
            where,
            f"Correct it: {name}={kind.example}.",
        )


def name_declaration(declaration: object) -> str:
    """Name a declaration by its class and, where it has one, its name."""
    name = getattr(declaration, "name", None)
    return f"{type(declaration).__name__} {name!r}" if isinstance(name, str) else type(declaration).__name__
