"""The page of measurements in the docs, made from the newest finished measurement of each case.

`python -m tests.bench page`: keeps each as `docs/evidence/bench/NAME.json`, with its figure and plans beside it, and
writes the page from there.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.cluster.access import CHECKOUT
from tests.bench import options
from tests.bench.errors import BenchError
from tests.bench.facts import FACTS, PLANS, Kept

TABLE, FIGURE = "table.md", "figure.svg"
EVIDENCE, PAGE = Path("docs/evidence/bench"), Path("docs/reference/benchmarks.md")
TITLES = {
    "semantics": "What exactly-once costs",
    "race": "The packaged job beside Kafka Streams, Flink and plain Spark",
    "against": "All changes since the commit before the proof of whole input",
    "dedup": "Deduplication alone, beside Spark's",
    "flat": "The dedup catalog as live ids grow",
    "state": "State of windows: in the ledger, or in Spark",
    "held": "A held watermark",
    "lake": "A lake table beside a topic",
    "optimisations": "Fusion and combiner lifting",
    "checkpoint": "A trivial batch with our checkpoint manager",
    "restart": "From a killed driver to the next epoch",
}
SIZES = {"dedup": ("live", "rows")}
"""Settings by which measurements of one case are different ones, each with a section of its own."""
INTRO = """# Measurements

Made by `make bench CASE=page`; do not edit. What matters is a ratio of two things in one run, taken in turns: the
machines are shared and noisy, so numbers of different sections do not compare. `make bench` runs smaller forms of all
cases; the command of each section made that section. Raw samples and facts of the machine are in
`docs/evidence/bench`, one file for each section.
"""


class Asked(options.Asked):
    """Write the docs' page of measurements from the newest ones."""

    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where measurements are kept.", show_default=False)] = (
        CHECKOUT / "runs" / "bench"
    )
    docs: Annotated[Path, typer.Option(metavar="DIR", help="Checkout to write to.", show_default=False)] = CHECKOUT


def measure(asked: Asked) -> str:
    """Keep and write; nothing is measured."""
    to = asked.docs / EVIDENCE
    to.mkdir(parents=True, exist_ok=True)
    # The oldest first: the newest of a name is what stays.
    for each in find_finished(asked.runs):
        if case_of(facts := _read(each / FACTS)) in TITLES:
            name, table = name_of(facts), (each / TABLE).read_text().strip()
            document = {"facts": facts, "table": table.split("\n"), "samples": Kept(each).samples()}
            (to / f"{name}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
            shutil.copy(each / FIGURE, to / f"{name}.svg")
            if (each / PLANS).exists():
                shutil.copy(each / PLANS, to / f"{name}-{PLANS}")
    page = asked.docs / PAGE
    page.write_text(render(to))
    sys.stdout.write(f"{page.relative_to(asked.docs)}\n")
    return ""


def find_finished(runs: Path) -> Iterator[Path]:
    """Folders of measurements that came to their end, oldest first."""
    yield from sorted(table.parent for table in runs.glob(f"*/{TABLE}"))


def case_of(facts: Mapping[str, Any]) -> str:
    """Which case a measurement is of."""
    return str(facts["case"])


def name_of(facts: Mapping[str, Any]) -> str:
    """Name of a measurement's evidence: its case, and its sizes where these make it another measurement."""
    return "-".join([facts["case"], *(str(facts["settings"][size]) for size in SIZES.get(facts["case"], ()))])


def render(evidence: Path) -> str:
    """Return the page: a section for each measurement of which there is evidence, case by case, the smaller first."""
    there = [_read(path) for path in evidence.glob("*.json")]
    if not there:
        raise BenchError("no measurement came to its end yet: run `make bench` first")
    return "\n".join([INTRO, *map(_section, sorted(there, key=_place))])


def _place(kept: Mapping[str, Any]) -> list[int]:
    settings, case = kept["facts"]["settings"], case_of(kept["facts"])
    return [[*TITLES].index(case), *(settings[size] for size in SIZES.get(case, ()))]


def _section(kept: Mapping[str, Any]) -> str:
    facts, table = kept["facts"], "\n".join(kept["table"])
    case = facts["case"]
    sizes = ", ".join(f"{size} {facts['settings'][size]:,}" for size in SIZES.get(case, ()))
    versions = facts["versions"]
    settings = ", ".join(f"{name} {_words(value)}" for name, value in facts["settings"].items() if not _long(value))
    return (
        f"## {TITLES[case]}{sizes and f': {sizes}'}\n\n"
        f"`make bench CASE={case}` with {settings}.\n\n"
        f"{table}\n\n"
        f"{facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB; Spark {versions['spark']}, Kafka "
        f"{versions['kafka_broker']}, Python {facts['python']}. ![samples](../evidence/bench/{name_of(facts)}.svg)\n"
    )


def _long(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value.startswith("-"))


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document
