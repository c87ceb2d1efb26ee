"""What the product said of its sources is judged: by the chain where it spoke, and as unknown where nobody asked it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from effectively_once.operate.inspect import certificate
from tests.harness.asked import Asked, Certificate
from tests.harness.checkers import answers
from tests.harness.checkers.answers import releases
from tests.harness.checkers.case import Case
from tests.harness.evidence import Clock, EpochRecord, Settings
from tests.harness.judge.verdict import judge, protect
from tests.harness.results import Oracle, Verdict
from tests.harness.run_directory import RunDirectory
from tests.unit.harness.fabricate_gateways import AWAY, NORTH, fabricate_gateways
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.gateway_world import GatewayWorld
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect
from tests.unit.harness.tamper import Change, bind, change_lines, document, lines_of, manifest, watch
from tests.unit.library import test_certificate
from tests.unit.library.test_clock import head

METRIC, OPEN, COUNTED, RELEASED, COMPLETE, WARNING = range(6)
"""The lines of `asked.jsonl`."""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with gateways in place of the clean run; not to be changed."""
    return bind(watch(fabricate_gateways(tmp_path_factory.mktemp("asked") / "20261125-170301-7")))


def lines(change: Callable[[list[Row]], Any]) -> Change:
    return lambda run: change_lines(run / "asked.jsonl", change)


def without(*at: int) -> Change:
    def remove(rows: list[Row]) -> None:
        rows[:] = [row for number, row in enumerate(rows) if number not in at]

    return lines(remove)


def line(at: int, **changes: Any) -> Change:
    return lines(lambda rows: rows[at].update(changes))


def later(at: int, by_ms: int) -> Change:
    return lines(lambda rows: rows[at].update(at=rows[at]["at"] + by_ms))


def says(at: int, **changes: Any) -> Change:
    return lines(lambda rows: rows[at]["says"].update(changes))


def answer(at: int, verdict: str, code: int, **changes: Any) -> Change:
    """The command says something else, and ends as it does when it says so."""

    def change(rows: list[Row]) -> None:
        rows[at]["code"] = code
        rows[at]["says"].update(verdict=verdict, **changes)

    return lines(change)


def open_until_it_was_recorded(run: Path) -> None:
    """The window is said to be open when it was known to be released."""
    lines(lambda rows: rows[OPEN].update(at=rows[RELEASED]["at"]))(run)


def no_answer(at: int, code: int | None) -> Change:
    return line(at, says=None, code=code, words="ObjectStoreError: the store does not answer")


def gone(run: Path) -> None:
    lines(lambda rows: rows.clear())(run)
    (run / "asked.jsonl").unlink()
    bind(run)


def judged(run: Path) -> Oracle:
    return protect(answers.NAME, answers.NUMBER, answers.judge, Case(RunDirectory(run)))


@pytest.mark.parametrize(
    ("does", "verdict", "why"),
    [
        # Each of what is due, left out.
        (gone, UNKNOWN, "asked.jsonl"),
        (without(COMPLETE), UNKNOWN, "nobody asked for the certificate of a window that is complete"),
        (without(RELEASED), UNKNOWN, f"windows were closed without {AWAY}, and nobody asked"),
        (no_answer(RELEASED, 74), UNKNOWN, f"windows were closed without {AWAY}, and nobody asked"),
        (without(WARNING), UNKNOWN, "no driver's log warned of it"),
        (line(WARNING, time_ms=1), UNKNOWN, "no driver's log warned of it"),
        (line(WARNING, source=NORTH), UNKNOWN, "no driver's log warned of it"),
        (without(METRIC, COUNTED), UNKNOWN, "nobody read the metric"),
        (without(COUNTED), UNKNOWN, "no metric counted it"),
        (no_answer(OPEN, 1), UNKNOWN, "ended with 1 and no certificate: ObjectStoreError"),
        (later(COMPLETE, 10**9), UNKNOWN, "when there was no run"),
        (line(METRIC, epoch="7"), UNKNOWN, "nothing that was asked"),
        (line(METRIC, released=False), UNKNOWN, "nothing that was asked"),
        # What is not true.
        (answer(RELEASED, "complete", 0), FAIL, "due is released"),
        (answer(RELEASED, "complete", 0, released=[]), FAIL, "due is released"),
        (answer(RELEASED, "open", 2), FAIL, "as no epoch has it"),
        (answer(COMPLETE, "released", 1, released=[AWAY]), FAIL, "due is complete"),
        (line(RELEASED, code=0), FAIL, "ended with 0 and said released"),
        (says(RELEASED, released=[NORTH]), FAIL, "due is released"),
        (says(RELEASED, epoch=9), FAIL, "due is released"),
        (says(COMPLETE, watermark_ms=1), FAIL, "due is complete"),
        (says(COMPLETE, passed={NORTH: 1}), FAIL, "due is complete"),
        (says(COMPLETE, end_ms=1), FAIL, "due is complete"),
        (says(COMPLETE, lost=1), FAIL, "due is complete"),
        (says(COMPLETE, more=1), FAIL, "due is complete"),
        (line(COMPLETE, window=1_750_000_080_000), FAIL, "due is released"),
        (says(OPEN, epoch=7), FAIL, "as no epoch has it"),
        (says(OPEN, watermark_ms=1_750_000_020_001), FAIL, "as no epoch has it"),
        (open_until_it_was_recorded, FAIL, "said it is open"),
        (later(RELEASED, -100_000), FAIL, "which was declared at"),
        (line(COUNTED, released=0), FAIL, "which let 1 go"),
        (line(METRIC, released=1), FAIL, "which let 0 go"),
        (line(METRIC, epoch=10**6), FAIL, "which let None go"),
        (later(COUNTED, -100_000), FAIL, "which was declared at"),
        (line(METRIC, epoch=0), FAIL, "and the next was published at"),
        (lines(lambda rows: rows.append({**rows[WARNING], "source": "west-gate"})), FAIL, "warned of west-gate"),
    ],
)
def test_what_was_not_asked_is_unknown_and_what_is_not_true_fails(
    run: Path, does: Change, verdict: Verdict, why: str
) -> None:
    does(run)
    oracle = judged(run)
    assert oracle.verdict is verdict, oracle.says
    assert any(why in one for one in (oracle.says, *oracle.evidence)), (oracle.says, oracle.evidence)


def test_a_command_that_had_no_answer_is_no_offence_where_another_had(run: Path) -> None:
    no_answer(OPEN, 74)(run)
    oracle = judged(run)
    assert oracle.verdict is PASS, oracle.evidence
    assert "1 times the command had no answer" in oracle.says


def test_in_pods_the_product_is_asked_too_and_a_run_without_its_answers_is_unknown(run: Path) -> None:
    manifest(lambda told: told["settings"].update(campaign="cluster"))(run)
    expect(run, PASS, "answers")
    gone(run)
    assert {one.name: one.verdict for one in judge(run, write=False).oracles}["answers"] is UNKNOWN


def test_each_time_that_a_source_is_let_go_is_one() -> None:
    world = GatewayWorld(10_000)
    one = releases(world.epochs)[0]
    assert (one.source, one.time_ms) == (AWAY, (world.epochs[one.first].clock or Clock()).sources[AWAY])
    waited_for = [*world.epochs]
    waited_for[one.first + 2] = waited_for[one.first + 2].model_copy(update={"clock": Clock()})
    spans = [(each.first, each.last) for each in releases(waited_for)]
    assert spans[:2] == [(one.first, one.first + 1), (one.first + 3, one.last)]


@pytest.mark.parametrize("window", [0, 100, 200, 300])
def test_the_product_says_what_is_recomputed(window: int) -> None:
    """Of a chain whose second window was closed without a source."""
    records = test_certificate.chain(None, test_certificate.WITH, test_certificate.WITHOUT, test_certificate.WITH)
    records = records[:3] if window == 200 else records
    says = certificate._of(head(*records), records, test_certificate.WINDOWS, window)
    epochs = [EpochRecord.model_validate(one.model_dump(mode="json", by_alias=True)) for one in records]
    settings = Settings(window_ms=100, lateness_ms=50, gateways=("b", "gate"))
    said = Certificate(1, window, certificate.EXIT_CODES[says.verdict], json.loads(json.dumps(asdict(says))), "")
    asked = Asked((said,), (), ())
    assert [*answers.untrue(asked, epochs, [], settings)] == []
    for name in ("verdict", "epoch", "watermark_ms", "passed", "released", "lost"):
        altered = said._replace(says={**(said.says or {}), name: "another"})
        assert [*answers.untrue(asked._replace(certificates=(altered,)), epochs, [], settings)], name


def forced(run: Path) -> None:
    """The epoch that closed the window was held too long, and its certificate names who was behind."""
    said = [row.get("says") or {} for row in lines_of(run / "asked.jsonl")]
    (closed,) = (one["epoch"] for one in said if one.get("verdict") == "complete")

    def force(chain: Any) -> None:
        record = next(one for one in chain["epochs"] if one["epoch"] == closed)
        record["clock"]["forced_ms"] = record["watermark_ms"]

    document("chain", force)(run)
    answer(COMPLETE, "released", 1, released=["events/0"])(run)


def test_a_certificate_that_names_who_was_left_behind_is_not_judged_and_others_are(run: Path) -> None:
    forced(run)
    oracle = judged(run)
    assert oracle.verdict is UNKNOWN, oracle.evidence
    assert "too much was held" in oracle.says
    says(RELEASED, epoch=9)(run)
    oracle = judged(run)
    assert oracle.verdict is FAIL
    assert "due is released" in oracle.evidence[0]
