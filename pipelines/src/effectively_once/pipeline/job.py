"""The declaration that settings name, and both together."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from effectively_once.errors import SettingsError
from effectively_once.pipeline.mistakes import wrong_lengths
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.settings import PipelineSettings, digest, load

ATTRIBUTE = "pipeline"


@dataclass(frozen=True)
class Job:
    """A declared pipeline as one deployment runs it."""

    pipeline: Pipeline
    settings: PipelineSettings

    def __post_init__(self) -> None:
        """Refuse settings that lack what the declaration needs."""
        tables = [*self.pipeline.tables, *self.pipeline.lake_tables]
        if tables and self.settings.database is None:
            raise SettingsError(
                f"the pipeline has tables ({', '.join(tables)}) and no database is set",
                "settings: database",
                "Set it: postgresql://host:port/database.",
            )
        read, given = {*self.settings.topics}, {*self.pipeline.transforms} - {None}
        if given and read != given:
            raise SettingsError(
                f"the pipeline has transforms of {', '.join(sorted(map(str, given)))} and reads {self.settings.topic}",
                "settings: topic",
                f"Read these topics: {','.join(sorted(map(str, given)))}.",
            )
        for wrong in wrong_lengths(self.pipeline.windows, self.settings.window_ms):
            raise SettingsError(wrong, "settings: window_ms", "Leave window_ms out, or set one that divides it.")
        if self.settings.idle_ms is not None and (self.pipeline.stateful is not None or not self.pipeline.timed):
            lacks = "state of Spark's own, which has one time for all" if self.pipeline.timed else "no event time"
            raise SettingsError(
                f"time cannot go by partition: the pipeline has {lacks}", "settings: idle_ms", "Leave idle_ms out."
            )

    @cached_property
    def bound(self) -> dict[str, Any]:
        """What state depends on: kept in head, and refused when it changes."""
        return {**self.settings.bound, **self.pipeline.bound}

    def of_shards(self, shards: int | None) -> Job:
        """Return the job as an epoch of so many shards sees it; None: as it is."""
        if shards is None:
            return self
        return replace(self, settings=self.settings.model_copy(update={"shards": shards}))

    @property
    def digest(self) -> str:
        """Digest of `bound`."""
        return digest(self.bound)


def job_of(path: Path, pipeline: Pipeline | None = None) -> Job:
    """Read a settings file and import the job it names, unless the declaration is at hand.

    Raises:
        SettingsError: a setting is wrong, or there is no such job.

    """

    def defaults(name: str) -> Mapping[str, Any]:
        nonlocal pipeline
        pipeline = pipeline or import_pipeline(name)
        return pipeline.defaults

    settings = load(path, defaults)
    assert pipeline is not None  # noqa: S101 - load() asked for the defaults
    return Job(pipeline, settings)


def module_of(name: str) -> ModuleType:
    """Import the module of a job.

    Raises:
        SettingsError: there is none, or it fails.

    """
    try:
        return importlib.import_module(name.partition(":")[0])
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(
            f"the job cannot be imported: {type(error).__name__}: {error}",
            f"settings: job {name}",
            "Install its wheel here, or correct the name.",
        ) from error


def import_pipeline(name: str) -> Pipeline:
    """Import a declaration: `module`, which calls it `pipeline`, or `module:name`.

    Raises:
        SettingsError: there is no such module, it fails, or what is there is no declaration.

    """
    _, _, attribute = name.partition(":")
    found = getattr(module_of(name), attribute or ATTRIBUTE, None)
    if not isinstance(found, Pipeline):
        raise SettingsError(
            f"the module has no {attribute or ATTRIBUTE} that is a Pipeline",
            f"settings: job {name}",
            "Name it: `module:name`.",
        )
    return found
