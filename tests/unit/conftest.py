"""Settings of Hypothesis for every suite below: no deadline per example, a loaded machine is not a failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
