"""The page is self-contained, accessible, and never broken by what a run recorded or failed to record."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.harness.report import render, typeset
from tests.unit.report.conftest import change
from tests.unit.report.parsed_page import Element, parse

HOSTILE = "</td><script>alert('x')</script>\"&{{ 7*7 }}<!--"
START = 1_795_194_180_000


def poisoned(value: Any) -> Any:
    """Replace every string of a recorded value by a hostile one; verdicts stay, so that all parts are drawn."""
    if isinstance(value, dict):
        return {
            key: part if key in ("verdict", "must", "event", "state") else poisoned(part) for key, part in value.items()
        }
    if isinstance(value, list):
        return [poisoned(part) for part in value]
    return HOSTILE if isinstance(value, str) else value


def test_page_loads_nothing_and_runs_nothing(recorded: Path, page: Element) -> None:
    text = render(recorded)
    assert "://" not in text
    assert "@import" not in text
    patterns = set(re.findall(r"url\(([^)]*)\)", text))
    assert patterns <= {f"#{pattern.attributes['id']}" for pattern in page.all("pattern")}
    for element in page.all():
        assert element.name not in ("script", "link", "iframe", "img")
        assert not {"src", "href", "onload", "onclick", "style"} & set(element.attributes)


def test_every_id_is_unique_and_every_label_exists(page: Element) -> None:
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    referred = " ".join(element.attributes.get("aria-labelledby", "") for element in page.all()).split()
    assert referred
    assert set(referred) <= set(ids)


def test_drawings_have_title_and_description_and_tables_have_headers(page: Element) -> None:
    for svg in page.all("svg"):
        assert svg.attributes["role"] == "img"
        assert svg.children[0].name == "title"
        assert svg.children[1].name == "desc"
        assert "2400 records sent, 2400 published" in svg.children[1].text
    for table in page.all("table"):
        assert table.all("th")
        assert all("scope" in header.attributes for header in table.all("th"))


def test_headings_descend_one_level_at_a_time(page: Element) -> None:
    levels = [int(element.name[1]) for element in page.all() if re.fullmatch(r"h[1-6]", element.name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_hostile_strings_everywhere_stay_text(run: Path) -> None:
    for path in [run / "results.json", run / "manifest.json", *run.glob("controls/*/results.json")]:
        path.write_bytes(orjson.dumps(poisoned(orjson.loads(path.read_bytes()))))
    results = orjson.loads((run / "results.json").read_bytes())
    results |= {"verdict": "fail", "reasons": [HOSTILE], "outputs": {HOSTILE: {"missing": 1}}}
    results["oracles"][0] |= {"verdict": "fail", "evidence": [HOSTILE, {HOSTILE: HOSTILE}]}
    results["versions"] = {HOSTILE: HOSTILE}
    (run / "results.json").write_bytes(orjson.dumps(results))
    lines = [orjson.loads(line) for line in (run / "history.jsonl").read_bytes().splitlines()]
    changed = [poisoned(line) | ({"driver": HOSTILE, "pid": HOSTILE}) for line in lines]
    (run / "history.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in changed))
    (run / "controls" / "<b>bold").mkdir()
    (run / "controls" / "<b>bold" / "results.json").write_text("{}")
    text = render(run)
    assert "<script" not in text
    assert "<b>bold" not in text
    page = parse(text)
    assert page.one("h1").text == HOSTILE
    assert page.one("section", id="outputs").rows()[0][0] == HOSTILE
    assert page.one("ul", class_="reasons").all("li")[0].text == HOSTILE


def test_an_empty_directory_is_an_unknown_run_that_says_what_is_missing(tmp_path: Path) -> None:
    page = parse(render(tmp_path))
    assert page.one("p", class_="word").text == "? Unknown"
    gaps = page.one("ul", class_="gaps").text
    assert "results.json is missing" in gaps and "history.jsonl is missing" in gaps
    assert {entry.text for entry in page.one("dl", class_="four").all("dd")} == {typeset.NOT_KNOWN}
    assert page.all("svg") == []


@pytest.mark.parametrize("junk", [b"", b"[]", b"null", b'{"verdict": ', b"\xff\xfe", b'"pass"', b"7"])
def test_broken_files_are_said_to_be_broken_and_never_pass(run: Path, junk: bytes) -> None:
    for name in ("results.json", "manifest.json", "observed/chain.json", "history.jsonl"):
        (run / name).write_bytes(junk)
    page = parse(render(run))
    assert page.one("p", class_="word").text == "? Unknown"
    assert len(page.one("ul", class_="gaps").all("li")) >= 3


WRONG = [None, "many", {"a": {"b": None}}]
MORE_WRONG = [-1, 1.5, True, [], {}, [[1]], 1e300]


@pytest.mark.parametrize("wrong", [*WRONG, *(pytest.param(one, marks=pytest.mark.deep) for one in MORE_WRONG)])
@pytest.mark.thinned(3)
def test_values_of_a_wrong_type_are_drawn_as_not_known(run: Path, wrong: object) -> None:
    results = orjson.loads((run / "results.json").read_bytes())
    for key in results:
        (run / "results.json").write_bytes(orjson.dumps(results | {key: wrong}))
        assert "</html>" in render(run), key
    history = [orjson.loads(line) for line in (run / "history.jsonl").read_bytes().splitlines()]
    for key in sorted({key for event in history for key in event}):
        lines = [event | {key: wrong} if key in event else event for event in history]
        (run / "history.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
        parse(render(run))


def test_a_torn_last_line_of_the_history_is_counted_and_the_rest_is_drawn(run: Path) -> None:
    with (run / "history.jsonl").open("ab") as history:
        history.write(b'{"t": 1795194180000, "eve')
    page = parse(render(run))
    assert "history.jsonl: 1 of" in page.one("ul", class_="gaps").text
    assert len(page.all("svg")) == 2


def test_a_run_without_faults_epochs_controls_or_chain_is_drawn(run: Path) -> None:
    change(run, "results.json", faults=[], controls=[], oracles=[], epochs={}, versions={}, git={})
    (run / "manifest.json").write_text("{}")
    (run / "observed" / "chain.json").unlink()
    for path in run.glob("controls/*/results.json"):
        path.unlink()
    (run / "history.jsonl").write_text('{"t": 1, "event": "phase", "phase": "warm-up"}\n')
    page = parse(render(run))
    assert page.one("section", id="epochs").text.endswith("The history holds no epoch.")
    assert "No negative control was run." in page.one("section", id="controls").text
    assert page.all("svg") == []


def test_the_page_of_a_control_says_that_it_is_one(run: Path) -> None:
    change(run, "manifest.json", control="spark_kafka_sink")
    page = parse(render(run))
    assert "negative control spark_kafka_sink" in page.one("header").text
    assert "the verdict it must get is fail" in page.one("div", id="verdict").text


def test_three_thousand_epochs_are_drawn_in_few_bars(run: Path) -> None:
    events: list[dict[str, Any]] = []
    for number in range(3000):
        told = {"event": "epoch", "epoch": number, "generation": 1, "driver": 4711}
        declared = START + number * 1000
        events.append({"t": declared, "state": "declared"} | told)
        took = 20_000 if number == 1234 else 800
        counts = {"in": 5, "repeat": number == 1700}
        events.append({"t": declared + took, "state": "published"} | told | counts)
        events.append({"t": declared, "event": "sent", "acknowledged": 5 * number + 5})
    (run / "history.jsonl").write_bytes(b"\n".join(orjson.dumps(event) for event in events))
    (run / "observed" / "chain.json").unlink()
    text = render(run)
    assert len(text) < 400_000
    page = parse(text)
    for name, room in (("wide", 1080), ("narrow", 358)):
        svg = page.one("svg", class_=name)
        assert 50 < len(svg.all("rect", class_="bar")) < room / 2
        assert len(svg.all("rect", class_="repeat")) == 1, "aggregation must not swallow a repeat"
    assert "3000 epochs in the history: 15000 records in" in page.one("section", id="epochs").text
    assert "1234" in [row[0] for row in page.one("section", id="epochs").rows()]


def test_text_has_enough_contrast_in_light_and_dark() -> None:
    css = (Path(typeset.__file__).parent / "page.css").read_text(encoding="utf-8")
    schemes = [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in re.findall(r":root \{(.*?)\}", css, re.S)
    ]
    assert len(schemes) == 3
    for named in schemes:
        scheme = {"paper": "#ffffff", "ink": "#000000", "soft": "#444444"} | named
        for word in ("ink", "soft", "pass", "fail", "unknown", "sent", "published"):
            assert contrast(scheme[word], scheme["paper"]) >= 4.5, word
        for verdict in ("pass", "fail", "unknown"):
            ground = scheme.get(f"{verdict}-wash", scheme["paper"])
            assert contrast(scheme[verdict], ground) >= 4.5, verdict
            assert contrast(scheme["soft"], ground) >= 4.5, verdict


def contrast(first: str, second: str) -> float:
    """Contrast of two colours as WCAG 2.2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)
