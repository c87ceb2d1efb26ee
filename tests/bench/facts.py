"""What a measurement was made on, and where it is kept."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from infra.cluster.access import CHECKOUT
from infra.versions import of_run


def machine() -> dict[str, Any]:
    """Cores, memory, load and versions."""
    return {
        "cores": psutil.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load": psutil.getloadavg()[0], "kernel": platform.release(), "python": platform.python_version(),
        "versions": of_run(),
    }  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """A folder of one measurement: `facts.json`, and every single sample in `raw.jsonl`."""

    folder: Path

    @classmethod
    def begun(cls, case: str, **settings: Any) -> Kept:
        """Make the folder below `runs/bench`."""
        folder = CHECKOUT / "runs" / "bench" / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{case}"
        folder.mkdir(parents=True)
        kept = cls(folder)
        kept._write("facts.json", json.dumps({"case": case, "settings": settings, **machine()}, indent=1))
        return kept

    def sample(self, **numbers: Any) -> None:
        """Append one sample."""
        with (self.folder / "raw.jsonl").open("a") as file:
            file.write(json.dumps(numbers) + "\n")

    def table(self, text: str) -> None:
        """Write the table that was printed."""
        self._write("table.md", text)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text + "\n")


def spread(samples: Sequence[float]) -> str:
    """Median, and the smallest and largest beside it."""
    return f"{statistics.median(samples):,.0f} ({min(samples):,.0f} to {max(samples):,.0f})"
