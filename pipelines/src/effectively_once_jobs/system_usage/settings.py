"""Settings of the job: those of a pipeline, and which semantics of four."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once_jobs.settings_file import read

Semantics = Literal["at_most_once", "at_least_once_acknowledged", "at_least_once_checkpointed", "exactly_once"]
AT_MOST_ONCE: Semantics = "at_most_once"
ACKNOWLEDGED: Semantics = "at_least_once_acknowledged"
CHECKPOINTED: Semantics = "at_least_once_checkpointed"
EXACTLY_ONCE: Semantics = "exactly_once"
ALL: tuple[Semantics, ...] = (AT_MOST_ONCE, ACKNOWLEDGED, CHECKPOINTED, EXACTLY_ONCE)


class UsageSettings(PipelineSettings):
    """What the job needs to know beside a pipeline's settings.

    Attributes:
        semantics: how often an event counts when something fails.
        database: where the result store is, which the look-ups ask and the counts go to.
        time_out_s: with the acknowledger: how long an event may be under way before it is replayed. With the other
            semantics it has no meaning, and exactly once refuses it.

    """

    semantics: Semantics = EXACTLY_ONCE  # type: ignore[assignment]  # wider than the library's two
    database: Annotated[str, Field(pattern=r"^postgresql://[^\s/:@?]+:\d+/[^\s/:@?]+$")]
    time_out_s: Annotated[float, Field(ge=0.1, le=3600)] = 5.0


def load(path: Path) -> UsageSettings:
    """Read a settings file.

    Raises:
        SettingsError: naming field, value and what is allowed.

    """
    return read(path, UsageSettings)
