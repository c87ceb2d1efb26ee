"""Faults of every role on the page: what stood still says for how long, what woke says how it was refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tests.harness.report import render
from tests.unit.report.parsed_page import Element, parse

STOPPED = {"kind": "sigstop", "target": "broker", "signal": "SIGSTOP", "stopped_s": 8.01}
REFUSAL = "exit code 75: StaleDriverError: driver a was replaced by b"
ZOMBIE = {"kind": "zombie", "target": "driver", "signal": "SIGSTOP", "stopped_s": 41.5, "refusal": REFUSAL}


def with_roles(run: Path, *roles: dict[str, Any], **epochs: Any) -> Element:
    """The page of a run whose first faults are changed."""
    path = run / "results.json"
    results = orjson.loads(path.read_bytes())
    for fault, role in zip(results["faults"], roles, strict=False):
        fault.update(role)
    results["epochs"].update(epochs)
    path.write_bytes(orjson.dumps(results))
    return parse(render(run))


def section(page: Element) -> Element:
    return next(one for one in page.all("section") if one.attributes.get("id") == "faults")


def test_a_stop_says_how_long_it_was(run: Path) -> None:
    words = section(with_roles(run, STOPPED, ZOMBIE)).text
    assert "SIGSTOP, for 8.0s" in words
    assert "made a zombie, for 41.5s" in words
    assert "it went on after it had stood still" in words


def test_a_zombie_shows_its_refusal(run: Path) -> None:
    assert REFUSAL not in section(parse(render(run))).text
    assert f"fault 2: the driver that woke ended with {REFUSAL}" in section(with_roles(run, STOPPED, ZOMBIE)).text


def test_faults_of_new_roles_are_in_the_drawing(run: Path) -> None:
    titles = [title.text for title in with_roles(run, STOPPED, ZOMBIE).all("title")]
    assert any(title.startswith("fault 1, broker: SIGSTOP, for 8.0s, at") for title in titles)
    assert any(title.startswith("fault 2, driver: made a zombie, for 41.5s, at") for title in titles)


def test_the_longest_gap_is_the_one_of_the_results(run: Path) -> None:
    assert "longest gap" not in parse(render(run)).text
    assert "34.9s" in with_roles(run, longest_gap_s=34.911).text


def test_how_long_records_waited_is_told_in_shares(run: Path) -> None:
    waits = {"n": 9, "p50": 1.5, "p90": 2.25, "p99": 31.0, "max": 40.0}
    facts = with_roles(run, waits=waits).one("dl", class_="facts").text
    assert "half of the records; 90 %: 2.2s, 99 %: 31.0s, all: 40.0s" in facts


def test_a_campaign_says_how_to_run_it_again(run: Path) -> None:
    path = run / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    manifest["settings"] |= {"campaign": "embedded", "faults": "zombie,broker-kill", "records": "12000"}
    # As every manifest has what the judge reads, set or not.
    manifest["settings"] |= {"repair": False, "rate": None, "hold_max_ms": 600_000, "gateways": []}
    path.write_bytes(orjson.dumps(manifest))
    told = parse(render(run)).text
    assert "make chaos FAULTS=zombie,broker-kill RECORDS=12000 SEED=" in told
    assert "ARGS=" not in told
    manifest["controls"] = []
    manifest["settings"] |= {
        "campaign": "cluster",
        "stall_s": "3,12",
        "rate": "250",
        "idle_ms": "300000",
        "short_pipes": "True",
        "unproven": "False",
        "cut_s": "40",
    }
    path.write_bytes(orjson.dumps(manifest))
    told = parse(render(run)).text
    assert "make chaos ON=cluster FAULTS=" in told
    assert "ARGS='--stall-s 3,12 --cut-s 40 --short-pipes --rate 250 --idle-ms 300000 --no-controls'" in told
    manifest["settings"] = {"suite": "smoke"}
    path.write_bytes(orjson.dumps(manifest))
    assert "make acceptance SUITE=smoke SEED=" in parse(render(run)).text


def test_a_campaign_on_somebody_elses_pipeline_names_its_job_and_file(run: Path) -> None:
    path = run / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    manifest["settings"] |= {
        "campaign": "own pipeline",
        "job": "clicks.job",
        "faults": "driver-kill",
        "input": "events.jsonl",
        "key": "id",
        "time": "at",
    }
    manifest["workload"]["kind"] = "file"
    path.write_bytes(orjson.dumps(manifest))
    said = "make chaos FAULTS=driver-kill AT=... JOB=clicks.job INPUT=events.jsonl KEY=id TIME=at SEED="
    assert said in parse(render(run)).text
