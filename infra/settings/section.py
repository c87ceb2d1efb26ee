"""What every group of settings is: frozen, and strict about its fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

PROJECT = "effectively-once"


class Section(BaseModel):
    """A group of settings: unknown names are refused, unchangeable once read."""

    model_config = ConfigDict(frozen=True, extra="forbid")
