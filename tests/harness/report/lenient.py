"""Reading values of a recorded run that may be missing or of the wrong type.

The page has to be drawn for runs that broke off, so nothing here raises: what is not there is `None` or empty,
and the page shows it as not known.
"""

import math
from typing import Any


def mapping(value: object) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """Return the value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the JSON objects of an array; everything else in it is left out."""
    return [item for item in sequence(value) if isinstance(item, dict)]


def real(value: object) -> float | None:
    """Return a finite number, or None for anything else (true and false are no numbers)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def whole(value: object) -> int | None:
    """Return a whole number, or None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def text(value: object) -> str:
    """Return a string as it is, nothing as the empty string, and other values in short plain form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(text(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(item)}" for key, item in value.items())
    return str(value)
