"""The docs' page of measurements: the newest finished one of each case, and nothing that was not measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from infra.cluster.access import CHECKOUT
from tests.bench import facts, page
from tests.bench.errors import BenchError

FACTS: dict[str, Any] = {
    "case": "dedup",
    "settings": {"live": 1000000, "rows": 1000, "arms": ["a", "b"], "jvm": "-XX:A", "rocksdb": {"a": "b"}},
    "cores": 2,
    "memory_gib": 8.0,
    "processor": "P",
    "python": "3.11",
    "versions": {"spark": "4", "kafka_broker": "4"},
}


def keep(runs: Path, name: str, table: str | None, **changes: object) -> None:
    folder = runs / name
    folder.mkdir(parents=True)
    (folder / facts.FACTS).write_text(json.dumps({**FACTS, **changes}))
    (folder / facts.RAW).write_text(f'{{"sample of": "{name}"}}\n')
    (folder / page.FIGURE).write_text(f"figure of {name}")
    if table is not None:
        (folder / page.TABLE).write_text(table)


def test_the_newest_finished_measurement_of_a_case_is_on_the_page_and_in_the_evidence(tmp_path: Path) -> None:
    runs, docs = tmp_path / "runs", tmp_path / "docs"
    (docs / page.PAGE).parent.mkdir(parents=True)
    keep(runs, "20260101-000000-dedup", "an older one")
    keep(runs, "20260102-000000-dedup", "ours / theirs: 3.10")
    (runs / "20260102-000000-dedup" / facts.PLANS).write_text("plans")
    keep(runs, "20260103-000000-dedup", None)
    keep(runs, "20260104-000000-race", "another case", case="race")
    assert page.measure(argparse.Namespace(runs=runs, docs=docs)) == ""
    text = (docs / page.PAGE).read_text()
    assert text.index("another case") < text.index("ours / theirs: 3.10")
    assert "an older one" not in text
    assert "`make bench CASE=dedup` with live 1000000, rows 1000, arms a b." in text
    kept_as = docs / page.EVIDENCE / "dedup-1000000-1000"
    assert json.loads(kept_as.with_suffix(".json").read_text())["samples"] == [{"sample of": "20260102-000000-dedup"}]
    assert kept_as.with_suffix(".svg").read_text() == "figure of 20260102-000000-dedup"
    assert kept_as.with_name("dedup-1000000-1000-plans.md").read_text() == "plans"


def test_another_size_is_another_measurement(tmp_path: Path) -> None:
    runs, docs = tmp_path / "runs", tmp_path / "docs"
    (docs / page.PAGE).parent.mkdir(parents=True)
    keep(runs, "20260101-000000-dedup", "a large one", settings={**FACTS["settings"], "live": 50_000_000})
    keep(runs, "20260102-000000-dedup", "a small one")
    page.measure(argparse.Namespace(runs=runs, docs=docs))
    text = (docs / page.PAGE).read_text()
    assert text.index("beside Spark's: live 1,000,000, rows 1,000") < text.index("a small one")
    assert text.index("a small one") < text.index("beside Spark's: live 50,000,000, rows 1,000")


def test_without_a_measurement_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no measurement came to its end yet"):
        page.render(tmp_path)


def test_the_page_in_the_docs_is_what_its_evidence_says() -> None:
    assert (CHECKOUT / page.PAGE).read_text() == page.render(CHECKOUT / page.EVIDENCE)
