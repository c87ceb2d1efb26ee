"""Plays tests of the unit suite against a copy of the product, in a process with limits."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.toolchain.prepare import CHECKOUT
from tests.planted import witness
from tests.planted.garden import PACKAGE, GardenError
from tests.planted.limits import GIB, Ended, Limits, run_limited
from tests.planted.sighting import Sighting

LIMITS = Limits(seconds=600.0)
WITH_SERVERS = Limits(seconds=1200.0, resident_bytes=12 * GIB, address_bytes=None)
LINE_LENGTH = 200
TOLD, LOG = "witness.json", "log.txt"
PASSED, FAILED = 0, 1
_OUT_OF_MEMORY = re.compile(r"[^:]*:\d+: (\w+\.)*(MemoryError|ArrowMemoryError|_ArrayMemoryError)\b")
_PLACES = re.compile(re.escape(tempfile.gettempdir()) + r"/[^\s'\":]*")


def play_suite(
    sources: Path, tests: Sequence[str], seed: int, scratch: Path, *, limits: Limits = LIMITS, root: Path = CHECKOUT
) -> Sighting:
    """Play tests up to the first that fails.

    Args:
        sources: folder of the product's packages.
        tests: files or node ids, from the root of the checkout.
        seed: of Hypothesis, and of the hashes of texts.
        scratch: an empty folder; the log of the run and its temporary files go there.
        limits: of the process.
        root: where the tests are.

    Raises:
        GardenError: no test ran, or another product was tested than that of `sources`.

    """
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--tb=short",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        # The settings of the checkout would put its own sources before these.
        "-o",
        "pythonpath=",
        "-p",
        witness.__name__,
        f"--hypothesis-seed={seed}",
        f"--hypothesis-profile={witness.PROFILE}",
        *tests,
    ]
    env = {
        "PYTHONPATH": os.pathsep.join((str(sources), str(root))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": str(seed),
        witness.VARIABLE: str(scratch / TOLD),
        "TMPDIR": str(scratch),
        # Of its profile it keeps none; an example that failed before would catch the next bug by luck.
        "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
    }
    ended = run_limited(argv, cwd=root, env=env, log=scratch / LOG, limits=limits)
    if ended.how != "exit":
        return Sighting(seed=seed, how=ended.how, by=_limit(ended, limits), seconds=round(ended.seconds, 1))
    return _sighting(seed, ended, scratch, sources, root)


def play_in_copy(sources: Path, tests: Sequence[str], seed: int, scratch: Path) -> Sighting:
    """Play tests of the copy of the checkout that holds these sources: what is tested may be outside of them."""
    return play_suite(sources, tests, seed, scratch, root=sources.parents[1])


def play_with_servers(checkout: Path, tests: Sequence[str], seed: int, scratch: Path) -> Sighting:
    """Play tests of a copy of the checkout that start servers, or Spark; what they build is made of the copy."""
    return play_suite(checkout / "pipelines" / "src", tests, seed, scratch, limits=WITH_SERVERS, root=checkout)


def _sighting(seed: int, ended: Ended, scratch: Path, sources: Path, root: Path) -> Sighting:
    told = scratch / TOLD
    if ended.code not in (PASSED, FAILED) or not told.exists():
        said = _tail(scratch / LOG)
        raise GardenError(f"no test ran (pytest ended with {ended.code}): {said}. Correct the bug or its tests")
    seen: dict[str, Any] = json.loads(told.read_text())
    if Path(seen["product"]) != sources / PACKAGE:
        raise GardenError(f"the tests were played against {seen['product']}, and not against the copy")
    failed = seen["failed"]
    seconds = round(ended.seconds, 1)
    if failed is None:
        return Sighting(seed=seed, how="passed", by=f"{seen['tests']} tests", draws=seen["draws"], seconds=seconds)
    line = _short(failed["line"], sources, root)
    # Memory that ran out inside of a test fails it, and shows nothing of the bug.
    how = "memory" if _OUT_OF_MEMORY.match(line) else "caught"
    return Sighting.model_validate(
        {"seed": seed, "how": how, "by": failed["test"], "line": line, "draws": failed["draws"], "seconds": seconds}
    )


def _short(line: str, sources: Path, root: Path) -> str:
    """Return the first line, without folders of this machine."""
    for folder in (sources, root):
        line = line.replace(f"{folder}/", "")
    first = next((part for part in line.splitlines() if part.strip()), "")
    return _PLACES.sub("(a temporary folder)", first)[:LINE_LENGTH]


def _limit(ended: Ended, limits: Limits) -> str:
    if ended.how == "time":
        return f"it did not end in {limits.seconds:.0f} s"
    return f"it took more than {limits.resident_bytes / (1 << 30):.0f} GiB"


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-3:])[:500]
