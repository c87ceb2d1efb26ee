"""The page of measurements in the docs, made from the newest finished measurement of each case.

`python -m tests.bench page`: copies what was kept of each to `docs/evidence/bench`, and writes the page from there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.cluster.access import CHECKOUT
from tests.bench.errors import BenchError
from tests.bench.facts import FACTS, PLANS, RAW

TABLE, FIGURE = "table.md", "figure.svg"
EVIDENCE, PAGE = Path("docs/evidence/bench"), Path("docs/reference/benchmarks.md")
TITLES = {
    "semantics": "What exactly-once costs",
    "streams": "S1 beside plain Spark and Kafka Streams",
    "against": "All changes since the commit before the proof of whole input",
    "dedup": "Deduplication alone, beside Spark's",
    "flat": "The dedup catalog as live ids grow",
    "state": "State of windows: in the ledger, or in Spark",
    "optimisations": "Fusion and combiner lifting",
    "checkpoint": "A trivial batch with our checkpoint manager",
    "restart": "From a killed driver to the next epoch",
}
SIZES = {"dedup": ("live", "rows")}
"""Settings by which measurements of one case are different ones, each with a section of its own."""
INTRO = """# Measurements

Made by `python -m tests.bench page`; do not edit. What matters is a ratio of two things in one run, taken in turns: the
machines are shared and noisy, so numbers of different sections do not compare. `make bench` runs smaller forms of all
cases; the command of each section made that section. Raw samples, facts of the machine and figures are in
`docs/evidence/bench`.
"""


def arguments(given: argparse.ArgumentParser) -> None:
    """Add the options of this case."""
    given.add_argument("--runs", type=Path, default=CHECKOUT / "runs" / "bench", help="where measurements are kept")
    given.add_argument("--docs", type=Path, default=CHECKOUT, help="checkout to write to")


def measure(asked: argparse.Namespace) -> str:
    """Copy and write; nothing is measured."""
    # The oldest first: the newest of a name is what stays.
    for each in finished(asked.runs):
        if case_of(each) in TITLES:
            to = asked.docs / EVIDENCE / named(each)
            to.mkdir(parents=True, exist_ok=True)
            for name in (FACTS, RAW, TABLE, FIGURE):
                shutil.copy(each / name, to / name)
            if (each / PLANS).exists():
                shutil.copy(each / PLANS, to / PLANS)
    page = asked.docs / PAGE
    page.write_text(written(asked.docs / EVIDENCE))
    sys.stdout.write(f"{page.relative_to(asked.docs)}\n")
    return ""


def finished(runs: Path) -> Iterator[Path]:
    """Folders of measurements that came to their end, oldest first."""
    yield from sorted(table.parent for table in runs.glob(f"*/{TABLE}"))


def case_of(folder: Path) -> str:
    """Which case a measurement is of."""
    return str(_facts(folder)["case"])


def named(folder: Path) -> str:
    """Name of a measurement's evidence: its case, and its sizes where these make it another measurement."""
    facts = _facts(folder)
    return "-".join([facts["case"], *(str(facts["settings"][size]) for size in SIZES.get(facts["case"], ()))])


def written(evidence: Path) -> str:
    """Return the page: a section for each measurement of which there is evidence, case by case, the smaller first."""
    there = [table.parent for table in evidence.glob(f"*/{TABLE}")]
    if not there:
        raise BenchError("no measurement came to its end yet: run `make bench` first")
    return "\n".join([INTRO, *map(_section, sorted(there, key=_place))])


def _place(folder: Path) -> list[int]:
    settings, case = _facts(folder)["settings"], case_of(folder)
    return [[*TITLES].index(case), *(settings[size] for size in SIZES.get(case, ()))]


def _section(folder: Path) -> str:
    facts = _facts(folder)
    case = facts["case"]
    sizes = ", ".join(f"{size} {facts['settings'][size]:,}" for size in SIZES.get(case, ()))
    versions = facts["versions"]
    settings = ", ".join(f"{name} {_told(value)}" for name, value in facts["settings"].items() if not _long(value))
    return (
        f"## {TITLES[case]}{sizes and f': {sizes}'}\n\n"
        f"`make bench CASE={case}` with {settings}.\n\n"
        f"{(folder / TABLE).read_text().strip()}\n\n"
        f"{facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB; Spark {versions['spark']}, Kafka "
        f"{versions['kafka_broker']}, Python {facts['python']}. ![samples](../evidence/bench/{folder.name}/{FIGURE})\n"
    )


def _long(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value.startswith("-"))


def _told(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _facts(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / FACTS).read_text())
    return facts
