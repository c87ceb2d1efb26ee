"""A manifest that names other code, settings, versions or another commit than its drivers ran is not believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from effectively_once.pipeline.settings import digest
from tests.harness.checkers import provenance
from tests.settings import pipeline_settings
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import PASS, UNKNOWN, expect, oracle_of
from tests.unit.harness.tamper import bind, change_json, change_lines

Change = Callable[[Any], Any]
OTHER = "0" * 64


def _start(changed: Row, *, first: bool = False) -> Change:
    """Change what drivers announce: all, or the first alone."""

    def change(rows: list[Row]) -> None:
        starts = [row for row in rows if row.get("state") == "started"]
        for row in starts[: 1 if first else None]:
            row.update(changed)

    return change


def _forget(rows: list[Row]) -> None:
    """Leave out what was not recorded before drivers announced it."""
    for row in rows:
        for name in ("git", *provenance.FIELDS) if row["event"] != "fault" else ():
            row.pop(name, None)


MANIFEST, HISTORY, SETTINGS = "manifest.json", "history.jsonl", "settings.json"


@pytest.mark.parametrize(
    ("file", "change", "why"),
    [
        (MANIFEST, lambda it: it["git"].update(commit="beef"), "the manifest says git {'commit': 'beef'"),
        (MANIFEST, lambda it: it["git"].pop("dirty"), "the manifest says git"),
        (MANIFEST, lambda it: it["versions"].update(spark="4.1.0"), "says spark 4.1.0, driver 4711"),
        (MANIFEST, lambda it: it["versions"].pop("spark"), "says spark None, driver 4711"),
        (MANIFEST, lambda it: it["code"].update(effectively_once=OTHER), "says code 000000000000 of effectively_once,"),
        (MANIFEST, lambda it: it["code"].pop("effectively_once_jobs"), "says code None of effectively_once_jobs"),
        (MANIFEST, lambda it: it.pop("code"), "says code None of effectively_once"),
        (SETTINGS, lambda it: it.update(epoch_rows_max=1), "no driver was started with settings.json as it is"),
        (HISTORY, _start({"settings": OTHER[:32]}, first=True), "has other settings than the run's"),
        (HISTORY, _start({"versions": {"spark": "4.2.0"}}, first=True), "drivers announce 2 different versions"),
        (HISTORY, _start({"code": {"effectively_once": "e0" * 32}}, first=True), "drivers announce 2 different code"),
        (HISTORY, _start({"code": {"effectively_once_jobs": "f0" * 32}}), "announce the code of effectively_once"),
        (HISTORY, _start({"code": 7, "versions": {}}, first=True), "does not announce its code, versions"),
        (HISTORY, _forget, "the history began with None"),
    ],
)
@pytest.mark.thinned(3)
def test_what_drivers_contradict_is_unknown(run: Path, file: str, change: Change, why: str) -> None:
    (change_lines if file == HISTORY else change_json)(run / file, change)
    expect(run, UNKNOWN, "bound", why)


def test_settings_that_are_gone_are_missed(run: Path) -> None:
    (run / SETTINGS).unlink()
    bind(run)
    assert f"{run / SETTINGS} is missing" in oracle_of(run, "bound").evidence


def test_a_run_of_which_drivers_tell_the_same_says_so(run: Path) -> None:
    assert oracle_of(run, "bound").says.endswith(provenance.CONFIRM)


def test_a_run_from_before_drivers_announced_it_says_so(run: Path) -> None:
    change_lines(run / HISTORY, _forget)
    change_json(run / MANIFEST, lambda manifest: manifest.pop("code"))
    found = oracle_of(run, "bound")
    assert (found.verdict, found.says.endswith(provenance.UNTOLD)) == (PASS, True), found


def test_a_repair_goes_on_with_other_code_and_settings(run: Path) -> None:
    tests = {"effectively_once": "e0" * 32, "tests": "a0" * 32}
    change_lines(run / HISTORY, _start({"code": tests, "settings": OTHER[:32]}, first=True))
    change_json(run / MANIFEST, lambda manifest: manifest["code"].update(tests))
    expect(run, UNKNOWN, "bound")
    change_json(run / MANIFEST, lambda manifest: manifest["settings"].update(repair=True))
    found = oracle_of(run, "bound")
    assert (found.verdict, found.evidence) == (PASS, ()), found


def test_a_file_has_the_digest_that_a_driver_announces_of_it(tmp_path: Path) -> None:
    settings = pipeline_settings(sources=("gate",), idle_ms=5)
    path = tmp_path / SETTINGS
    path.write_text(settings.model_dump_json(indent=1))
    announced = digest(settings.model_dump(mode="json"))
    assert provenance.digest_of(path) == announced
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "idle_ms": 6}))
    assert provenance.digest_of(path) != announced
