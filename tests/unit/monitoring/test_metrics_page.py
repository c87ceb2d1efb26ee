"""The page of metrics says of each what a driver exports, and of no other one."""

from __future__ import annotations

import re

from effectively_once.driver.metrics import PREFIX
from infra.toolchain.prepare import CHECKOUT
from tests.unit.monitoring import exported
from tests.unit.monitoring.exported import Metric
from tests.unit.monitoring.promtool import read_rules

PAGE = CHECKOUT / "docs" / "reference" / "metrics.md"
UNITS = {"_timestamp_seconds": "seconds since 1970", "_seconds": "seconds", "_bytes": "bytes", "_ratio": "share"}
SINCE_1970 = ("watermark_seconds",)
"""Named before the others, and read by who watches already."""
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]+?) \| ([^|]*?) \| ([^|]+?) \|$", re.MULTILINE)


def find_wrong(page: str, metrics: dict[str, Metric]) -> list[str]:
    """Return what the page and a driver do not agree about."""
    table = page.partition("## Of a driver")[2].partition("\n## ")[0]
    told = {
        name: (kind, unit, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, unit, labels, _ in _ROW.findall(table)
    }
    real = {name.removeprefix(PREFIX): one for name, one in metrics.items()}
    real = {name.removesuffix("_count"): one for name, one in real.items() if not name.endswith(("_bucket", "_sum"))}
    found = [f"{name}: nobody exports it" for name in told if name not in real]
    for name, one in real.items():
        kind, unit, labels = told.get(name, ("", "", ()))
        if (kind, tuple(sorted(labels))) != (one.kind, one.labels):
            found.append(f"{name}: it is a {one.kind} with labels {one.labels}, and is told as {kind!r} with {labels}")
        ending = next((end for end in UNITS if name.removesuffix("_total").endswith(end)), None)
        wanted = "seconds since 1970" if name in SINCE_1970 else UNITS.get(ending or "")
        if kind and wanted and unit != wanted:
            found.append(f"{name}: its unit is {wanted}, and is told as {unit}")
    return found


def test_the_page_has_every_metric_of_a_driver_with_its_type_unit_and_labels() -> None:
    assert find_wrong(PAGE.read_text(), exported.of_drivers()) == []


def test_a_metric_that_is_missing_gone_or_otherwise_is_seen() -> None:
    page, metrics = PAGE.read_text(), exported.of_drivers()
    assert find_wrong(page.replace("| `left_behind` |", "| `behind` |"), metrics) == [
        "behind: nobody exports it",
        "left_behind: it is a gauge with labels (), and is told as '' with ()",
    ]
    assert find_wrong(
        page.replace("| `input_unread_offsets` | gauge", "| `input_unread_offsets` | counter"), metrics
    ) == [
        "input_unread_offsets: it is a gauge with labels ('partition', 'topic'), and is told as 'counter' with "
        "('topic', 'partition')"
    ]
    assert find_wrong(page.replace("counter | bytes | `sink`", "counter | rows | `sink`"), metrics) == [
        "published_bytes_total: its unit is bytes, and is told as rows"
    ]
    assert find_wrong(page.replace("letters | `reason`", "letters | `why`"), metrics) != []


def test_what_the_page_says_of_servers_is_what_the_rules_use() -> None:
    servers, _, of_kafka = PAGE.read_text().partition("## Of the servers")[2].partition("### Of Kafka")
    used = exported.find_names("".join(rule["expr"] for rule in read_rules().values()))
    assert exported.find_names(servers) == used & exported.OF_SERVERS
    assert exported.find_names(of_kafka) == exported.OF_KAFKA


def test_every_metric_explains_itself() -> None:
    for name, one in exported.of_drivers().items():
        assert one.says.endswith("."), name
