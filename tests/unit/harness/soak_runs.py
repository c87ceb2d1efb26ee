"""Runs of a soak's parts without any stack: directories as campaigns leave them, a process that is interrupted."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import orjson

from tests.harness.mixture import name_of, parse_faults
from tests.harness.results import Verdict
from tests.harness.soak.plan import SORTS, Part

SMALL = Path(__file__).parents[1] / "report" / "fixtures" / "small"


@dataclass
class Runs:
    """Makes run directories; `ends` says how each run of a part ends, None: without a verdict, then `pass`."""

    path: Path
    ends: dict[str, list[Verdict | BaseException | None]] = field(default_factory=dict)
    played: list[str] = field(default_factory=list)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def __call__(self, part: Part) -> None:
        """Play a part as `run_part` does."""
        self.played.append(part.name)
        left = self.ends.get(part.name, [])
        end = left.pop(0) if left else Verdict.PASS
        if isinstance(end, BaseException):
            self.made(part, None)
            raise end
        self.made(part, end)

    def made(self, part: Part, verdict: Verdict | None) -> Path:
        """The directory that a run of a part leaves."""
        run = Path(shutil.copytree(SMALL, self.path / f"20261122-10{next(self.numbers):04}-{part.seed}"))
        manifest = orjson.loads((run / "manifest.json").read_bytes())
        strikes = parse_faults(part.faults, part.seed, SORTS[part.stack])
        manifest["settings"] |= {
            "campaign": part.stack,
            "records": str(part.records),
            "faults": ",".join(name_of(one) for one in strikes),
        }
        manifest |= {"run": run.name, "seed": part.seed, "started_at": time.time_ns() // 1_000_000}
        manifest["controls"] = manifest["controls"] if part.controls else []
        (run / "manifest.json").write_bytes(orjson.dumps(manifest))
        results = orjson.loads((run / "results.json").read_bytes())
        results |= {"verdict": verdict, "seed": part.seed, "reasons": [] if verdict is Verdict.PASS else ["because"]}
        (run / "results.json").write_bytes(orjson.dumps(results))
        if verdict is None:
            (run / "results.json").unlink()
        return run


def _interrupted(told: Path) -> int:
    """A run that undoes its fault when it is interrupted, and takes a moment for it."""
    # As every run does: in the background of a script it would ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        told.write_text("up")
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.2)
        told.write_text("undone")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(_interrupted(Path(sys.argv[1])))
