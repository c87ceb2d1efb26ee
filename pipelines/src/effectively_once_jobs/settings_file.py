"""A settings file of a job that knows more than a pipeline's settings."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from effectively_once.errors import SettingsError
from effectively_once.pipeline.settings import PipelineSettings

Settings = TypeVar("Settings", bound=PipelineSettings)


def read(path: Path, model: type[Settings]) -> Settings:
    """Read a settings file.

    Raises:
        SettingsError: naming field, value and what is allowed.

    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"settings cannot be read: {error.strerror}", str(path), "Name a readable file.") from error
    except ValidationError as wrong:
        first = wrong.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        # An address may hold a password: it is not repeated.
        silent = field == "database" or first["type"] in ("missing", "json_invalid", "value_error")
        given = "" if silent else f", got {first['input']!r}"
        raise SettingsError(
            f"{field}: {first['msg']}{given}", str(path), f"Fields are {', '.join(model.model_fields)}."
        ) from wrong
