"""What a measurement was made on, and where it is kept."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from infra.cluster.access import CHECKOUT
from infra.toolchain.jdk import find_jdk
from infra.versions import of_run
from tests.bench import figure, table
from tests.bench.errors import BenchError

FACTS, RAW = "facts.json", "raw.jsonl"
PLANS = "plans.md"
"""Of Spark, where a case keeps them."""


def machine() -> dict[str, Any]:
    """Cores, memory, load and versions."""
    return {
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "processor": _processor(),
        "load": load(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _java(),
        "versions": of_run(),
    }


def load() -> float:
    """Load average of the last minute; taken before a sample it tells of others, after it of the sample as well."""
    one_minute: float = psutil.getloadavg()[0]
    return round(one_minute, 2)


@dataclass(frozen=True)
class Kept:
    """A folder of one measurement: `facts.json`, every single sample in `raw.jsonl`, the table and its figure."""

    folder: Path

    @classmethod
    def begin(cls, case: str, resume: Path | None = None, **settings: Any) -> Kept:
        """Make the folder below `runs/bench`, or go on with the one of a measurement that was interrupted.

        Raises:
            BenchError: what is to be resumed was measured with other settings, or is not there.

        """
        if resume is not None:
            return cls(resume.absolute())._resume(case, settings)
        folder = CHECKOUT / "runs" / "bench" / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{case}"
        folder.mkdir(parents=True)
        kept = cls(folder)
        kept._write(FACTS, json.dumps({"case": case, "settings": settings, **machine()}, indent=1))
        return kept

    def sample(self, **numbers: Any) -> None:
        """Append one sample, with the load after it."""
        with (self.folder / RAW).open("a") as file:
            file.write(json.dumps({**numbers, "load_after": load()}) + "\n")

    def find_sample(self, **which: Any) -> dict[str, Any] | None:
        """Find the sample with these fields, None when it was not taken yet."""
        return next((one for one in self.samples() if all(one.get(k) == v for k, v in which.items())), None)

    def take(self, measure: Callable[[], dict[str, Any]], **which: Any) -> dict[str, Any]:
        """Return the sample with these fields: as it was taken before, or taken now, with the load before it."""
        found = self.find_sample(**which)
        if found is None:
            load_before = load()
            found = measure()
            self.sample(**which, load_before=load_before, **found)
        return found

    def finish(
        self, text: str, title: str, unit: str, samples: Mapping[str, Sequence[float]], target: float | None = None
    ) -> str:
        """Write the table and a figure of the samples; return the table, bars of text, and where all of it is."""
        self._write("table.md", text)
        self._write("figure.svg", figure.draw(title, unit, samples, target))
        inside = self.folder.is_relative_to(CHECKOUT)
        where = self.folder.relative_to(CHECKOUT) if inside else self.folder
        return f"{text}\n\n{table.text_bars(samples, unit)}\n\nraw samples and a figure in {where}"

    def samples(self) -> list[dict[str, Any]]:
        path = self.folder / RAW
        # A line that was cut off by the end of the process is a sample that was not taken.
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def _resume(self, case: str, settings: dict[str, Any]) -> Kept:
        path = self.folder / FACTS
        if not path.exists():
            raise BenchError(f"{path} is not there: name the folder of an interrupted measurement below runs/bench")
        began = json.loads(path.read_text())
        asked = json.loads(json.dumps(settings))
        if (began["case"], began["settings"]) != (case, asked):
            raise BenchError(
                f"{self.folder} is a measurement of {began['case']} with {began['settings']}, not of {case} with "
                f"{asked}: samples of both do not belong into one table; give the same options, or begin anew"
            )
        self._cut_to_whole_lines()
        return self

    def _cut_to_whole_lines(self) -> None:
        path = self.folder / RAW
        if path.exists():
            whole, _, _ = path.read_bytes().rpartition(b"\n")
            path.write_bytes(whole + b"\n" if whole else b"")

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text + "\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _java() -> str:
    """Say what `java -version` says, in one line: compilers and collectors differ from build to build."""
    asked: list[str | Path] = [find_jdk().java, "-version"]
    return "; ".join(subprocess.run(asked, capture_output=True, text=True, check=True).stderr.splitlines())


def spread(samples: Sequence[float], digits: int = 0) -> str:
    """Median, and the smallest and largest beside it."""
    return f"{statistics.median(samples):,.{digits}f} ({min(samples):,.{digits}f} to {max(samples):,.{digits}f})"
