"""A declared pipeline that is to run here: its settings, its code, and what it declares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.errors import UserError
from infra.toolchain.cache import Cache, digest
from infra.toolchain.prepare import Toolchain
from infra.toolchain.wheel import Wheel, build_wheel

ASK_S = 60.0
PLACE = ("kafka_bootstrap", "s3_endpoint", "s3_bucket", "database")
"""Settings that tell where servers are: a run has servers of its own."""
# In a process of its own: what a job imports stays out of this one.
_ASK = """
import json, sys
from effectively_once.pipeline.job import import_pipeline
found = import_pipeline(sys.argv[1])
names = {"kafka": found.kafka_sinks, "files": found.file_sinks, "tables": [*found.tables], "lake": [*found.lake_tables]}
print(json.dumps(names))
"""


class RunError(UserError):
    """What is to run cannot, or ended by itself; the message says why and what to do."""


@dataclass(frozen=True)
class Job:
    """What is to run: settings without addresses, and the wheel that its code is in, None where it is the library's."""

    settings: Mapping[str, Any]
    wheel: Wheel | None = None

    @classmethod
    def at(cls, folder: Path, job: str | None, cache: Cache) -> Job:
        """Read a folder as `make new-pipeline` makes it: settings.json, and a package. `job` overrides the settings'.

        Raises:
            RunError: there are no such settings.
            ToolchainError: the package cannot be built.

        """
        path = folder / "settings.json"
        try:
            settings = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {error}; `make new-pipeline` makes one") from error
        needed = ("pipeline", "job", "topic")
        if not isinstance(settings, dict) or not all(isinstance(settings.get(name), str) for name in needed):
            raise RunError(f"{path} lacks one of {', '.join(needed)}; `make new-pipeline` makes one that has them")
        kept = {name: value for name, value in settings.items() if name not in PLACE}
        return cls({**kept, **({"job": job} if job else {})}, build_wheel(cache, folder))

    @classmethod
    def from_library(cls, job: str) -> Job:
        """Take a job of the library, with the settings that it has by itself."""
        name = job.partition(":")[0].rpartition(".")[2]
        return cls({"pipeline": name, "job": job, "topic": f"{name}_events"})

    @property
    def name(self) -> str:
        """Of the pipeline."""
        return str(self.settings["pipeline"])

    def environment(self, toolchain: Toolchain) -> dict[str, str]:
        """Where its code is found, and the digest of all of it, which every declaration pins (R3)."""
        library = toolchain.wheel
        if self.wheel is None:
            return {"PYTHONPATH": str(library.installed), "EFFECTIVELY_ONCE_WHEEL_DIGEST": library.sha256}
        return {
            "PYTHONPATH": f"{library.installed}:{self.wheel.installed}",
            "EFFECTIVELY_ONCE_WHEEL_DIGEST": digest({"library": library.sha256, "job": self.wheel.sha256}),
        }


@dataclass(frozen=True)
class Declared:
    """Names of a pipeline's sinks, by what they are."""

    kafka: tuple[str, ...]
    files: tuple[str, ...]
    tables: tuple[str, ...]
    lake: tuple[str, ...] = ()

    @classmethod
    def of(cls, job: Job, toolchain: Toolchain) -> Declared:
        """Ask the declaration. Raises RunError with what its import said."""
        argv = [sys.executable, "-c", _ASK, str(job.settings["job"])]
        environment = {**os.environ, **job.environment(toolchain)}
        try:
            answer = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=ASK_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise RunError(f"{job.name}: its module is not imported within {ASK_S:.0f} s; see what it does") from error
        if answer.returncode:
            said = (answer.stderr.strip().splitlines() or ["nothing was said"])[-1]
            raise RunError(f"{job.name}: {said.removeprefix('effectively_once.errors.')}")
        return cls(**{kind: tuple(names) for kind, names in json.loads(answer.stdout).items()})
