"""Typed settings of a deployment: profiles as data, overridden field by field by the stack's configuration.

Nothing in here imports anything else of ours.
"""

from infra.settings.load import explain, images_from, load, read
from infra.settings.model import Pipeline, Settings
from infra.settings.refused import SettingsError

__all__ = ["Pipeline", "Settings", "SettingsError", "explain", "images_from", "load", "read"]
