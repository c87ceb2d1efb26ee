"""Typed settings of a deployment: profiles as data, overridden field by field by the stack's configuration.

Nothing in here imports anything else of ours.
"""

from infra.settings.load import explain, images_from, load, read
from infra.settings.pipeline import Pipeline
from infra.settings.refused import SettingsError
from infra.settings.settings import Settings

__all__ = ["Pipeline", "Settings", "SettingsError", "explain", "images_from", "load", "read"]
