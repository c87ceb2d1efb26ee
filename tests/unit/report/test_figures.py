"""Every figure on the page is the one in results.json."""

from pathlib import Path
from typing import Any

import pytest

from tests.harness.report import render, typeset
from tests.unit.report.conftest import change as change_file
from tests.unit.report.conftest import results_of
from tests.unit.report.parsed_page import Element, parse

KINDS = ("missing", "duplicated", "phantom", "corrupted")
PARTS = ("median", "p99", "max")


def change(run: Path, **changes: object) -> Element:
    """Change keys of results.json and return the page."""
    change_file(run, "results.json", **changes)
    return parse(render(run))


def pairs(listing: Element) -> dict[str, str]:
    return {entry.one("dt").text: entry.one("dd").text for entry in listing.all("div")}


def test_outputs_table_holds_the_numbers_of_every_sink(page: Element, recorded: Path) -> None:
    rows = {row[0]: row[1:7] for row in page.one("section", id="outputs").rows()}
    outputs = results_of(recorded)["outputs"]
    expected = {sink: [str(row[name]) for name in ("expected", "observed", *KINDS)] for sink, row in outputs.items()}
    sums = [str(sum(row[name] for row in outputs.values())) for name in ("expected", "observed", *KINDS)]
    assert rows == {**expected, "all sinks": sums}


def test_dead_letters_are_told_by_cause(run: Path) -> None:
    outputs = results_of(run)["outputs"]
    outputs["dead_letter"]["causes"] = {"late": 3, "malformed": 1, "sent again": 1200}
    said = change(run, outputs=outputs).one("section", id="outputs").text
    assert "by cause: 3 late, 1 malformed, 1200 sent again." in said


def test_the_four_numbers_are_sums_over_all_sinks(run: Path) -> None:
    outputs = results_of(run)["outputs"]
    for place, (sink, row) in enumerate(outputs.items()):
        outputs[sink] = row | {kind: 1000 * (at + 1) + place for at, kind in enumerate(KINDS)}
    page = change(run, outputs=outputs, verdict="fail")
    assert pairs(page.one("dl", class_="four")) == {
        kind: str(sum(row[kind] for row in outputs.values())) for kind in KINDS
    }
    assert len(page.one("dl", class_="four").all("dd", class_="wrong")) == 4


def test_a_sink_that_does_not_say_makes_the_sum_unknown_or_a_lower_bound(run: Path) -> None:
    outputs = results_of(run)["outputs"]
    outputs["accepted"] |= {"missing": None, "duplicated": None}
    outputs["user_counts"] |= {"duplicated": 7}
    four = pairs(change(run, outputs=outputs).one("dl", class_="four"))
    assert four["missing"] == typeset.NOT_KNOWN
    assert four["duplicated"] == "\N{GREATER-THAN OR EQUAL TO} 7"


@pytest.mark.parametrize("verdict", ["pass", "fail", "unknown"])
def test_the_band_says_the_verdict_in_a_word_and_with_a_sign(run: Path, verdict: str) -> None:
    band = change(run, verdict=verdict).one("div", id="verdict")
    assert verdict in band.attributes["class"].split()
    assert band.one("p", class_="word").text == f"{typeset.SYMBOLS[verdict]} {verdict.capitalize()}"
    assert band.one("h1").text == results_of(run)["claim"]


def test_reasons_and_first_offending_ids_stand_before_the_numbers(run: Path) -> None:
    evidence = [f"p0-s0-{number:06d} twice in accepted" for number in range(14)]
    oracle = {"name": "multiset", "number": 1, "verdict": "fail", "says": "Not exact.", "evidence": evidence}
    band = change(run, verdict="fail", reasons=["multiset: 14 duplicated"], oracles=[oracle]).one("div", id="verdict")
    assert [part.attributes.get("class") for part in band.children] == ["lead", "why", "four"]
    why = band.one("div", class_="why")
    assert [line.text for line in why.one("ul", class_="reasons").all("li")] == ["multiset: 14 duplicated"]
    lines = [line.text for line in why.one("ul", class_="evidence").all("li")]
    assert lines == [*evidence[:10], "and 4 more in results.json"]


def test_recovery_table_has_a_line_per_fault(page: Element, recorded: Path) -> None:
    rows = page.one("table", class_="single").rows()
    faults = results_of(recorded)["faults"]
    assert [row[3] for row in rows] == [fault["target"] for fault in faults]
    assert [row[4] for row in rows] == [str(fault["epoch"]) for fault in faults]
    assert [row[8] for row in rows] == [f"{fault['recovered_s']:.2f}s" for fault in faults]
    assert [row[6].split(",")[0] for row in rows] == [fault["process_before"].split("@")[0] for fault in faults]
    assert all("hit" in row[9] for row in rows)


def test_a_missed_fault_is_named_missed_and_not_counted(run: Path) -> None:
    faults = results_of(run)["faults"]
    faults[1] |= {"hit": False, "process_after": None, "recovered_s": None}
    page = change(run, faults=faults)
    assert pairs(page.one("dl", class_="facts"))["kills that hit"] == "2 of 3 injected, 3 planned"
    row = page.one("table", class_="single").rows()[1]
    assert row[7:9] == [typeset.NOT_KNOWN, typeset.NOT_KNOWN]
    assert row[9].endswith("missed")
    assert len(page.one("svg", class_="wide").all("path", class_="missed")) == 1


def test_a_control_that_passes_is_marked_as_wrong(run: Path) -> None:
    control = {"name": "spark_kafka_sink", "must": "fail", "verdict": "pass"}
    rows = change(run, controls=[control]).one("section", id="controls").rows()
    assert rows[0][2].endswith("not as it must")
    assert rows[1][2].startswith("unknown"), "planned and recorded, but not in the results"


FILE = {"kind": "file", "input": "my events.csv", "key": "user", "time": "at"}
STRUCK = {"campaign": "embedded", "faults": "zombie,broker-kill", "records": "12000"}
# As every manifest has what the judge reads, set or not.
NOT_SET: dict[str, object] = {"repair": False, "rate": None, "hold_max_ms": 600_000, "gateways": []}
BOUNDED = {"stall_s": "3,12", "cut_s": "40", "short_pipes": "True", "rate": "250", "idle_ms": "300000"}
OWN = {"campaign": "own pipeline", "job": "clicks.job", "faults": "driver-kill"}
COMMANDS = [
    ({"workload": FILE}, "make demo INPUT='my events.csv' KEY=user TIME=at SEED=7"),
    ({"settings": STRUCK | NOT_SET}, "make chaos FAULTS=zombie,broker-kill RECORDS=12000 SEED=7"),
    (
        {"settings": STRUCK | BOUNDED | {"campaign": "cluster", "unproven": "False"}, "controls": []},
        "make chaos ON=cluster FAULTS=zombie,broker-kill RECORDS=12000 SEED=7 "
        "ARGS='--stall-s 3,12 --cut-s 40 --short-pipes --rate 250 --idle-ms 300000 --no-controls'",
    ),
    ({"settings": {"suite": "smoke"}}, "make acceptance SUITE=smoke SEED=7"),
    (
        {"settings": OWN | {"input": "events.jsonl", "key": "id", "time": "at"}, "workload": {"kind": "file"}},
        "make chaos FAULTS=driver-kill AT=... JOB=clicks.job INPUT=events.jsonl KEY=id TIME=at SEED=7",
    ),
]


@pytest.mark.parametrize(("changes", "command"), COMMANDS)
def test_commands_reproduce_a_run_of_any_kind(run: Path, changes: dict[str, Any], command: str) -> None:
    change_file(run, "manifest.json", **changes)
    assert parse(render(run)).one("section", id="reproduce").all("code")[0].text == command


def test_how_long_records_waited_is_told_in_shares(run: Path) -> None:
    waits = {"n": 9, "p50": 1.5, "p90": 2.25, "p99": 31.0, "max": 40.0}
    facts = change(run, epochs=results_of(run)["epochs"] | {"waits": waits}).one("dl", class_="facts").text
    assert "half of the records; 90 %: 2.2s, 99 %: 31.0s, all: 40.0s" in facts


def test_recovery_by_sort_holds_the_numbers_of_the_results(page: Element, recorded: Path) -> None:
    rows = {(row[0], row[1]): row[2:] for row in page.one("table", class_="recovery").rows()}
    for sort in results_of(recorded)["recovery"]:
        told = rows.pop((sort["target"], sort["kind"].upper()))
        times = [sort[name][part] for name in ("replaced_s", "recovered_s", "caught_up_s") for part in PARTS]
        assert told == [f"{sort['hits']} of {sort['injected']}", *(f"{time:.2f}s" for time in times)]
    assert rows == {}


def test_a_sort_without_a_time_shows_none(run: Path) -> None:
    recovery = [sort | {"replaced_s": None} for sort in results_of(run)["recovery"]]
    row = change(run, recovery=recovery).one("table", class_="recovery").rows()[0]
    assert row[3:6] == [typeset.NOT_KNOWN] * 3


def test_bounds_are_those_of_the_results_with_what_they_do_not_show(page: Element, recorded: Path, run: Path) -> None:
    told = results_of(recorded)
    rows = page.one("table", class_="bounds").rows()
    assert [row[1] for row in rows] == [str(bound["hits"]) for bound in told["bounds"]]
    assert {row[2] for row in rows} == {"too few to bound"}
    enough = change(run, bounds=[{"role": "all", "hits": 12, "upper_95": 0.25}])
    assert enough.one("table", class_="bounds").rows() == [["all roles", "12", "25%"]]
    assert told["bounds_say"] in page.one("section", id="faults").text


def test_many_faults_are_folded_and_the_table_by_sort_is_not(run: Path) -> None:
    assert parse(render(run)).one("section", id="faults").all("details") == []
    page = change(run, faults=results_of(run)["faults"] * 9)
    (folded,) = page.one("section", id="faults").all("details")
    assert folded.one("summary").text == "all 27 faults, one by one"
    assert len(folded.one("table", class_="single").rows()) == 27
