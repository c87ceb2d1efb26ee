"""Files of a run with gateways are judged beside each other: words, acknowledgements, clocks, settings, the fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.words import find_mistimed, find_taken_back, strangers
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.harness.workload.gateways import GATEWAYS
from tests.unit.harness.fabricate_gateways import AWAY, HOLD_MAX_MS, NORTH, fabricate_gateways
from tests.unit.harness.fabricated_files import LATENESS_MS, Row
from tests.unit.harness.gateway_world import GatewayWorld
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_run
from tests.unit.harness.tamper import Change, bind, change_lines, document, history, manifest, sent, watch


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with gateways in place of the clean run; not to be changed."""
    return bind(watch(fabricate_gateways(tmp_path_factory.mktemp("gateways") / "20261125-170301-7")))


def test_a_run_whose_gateway_is_let_go_passes(run: Path) -> None:
    says = expect_run(run, PASS, "certificates").oracle("certificates").says
    assert f"were released by the bound, without {AWAY}" in says
    assert f"records of {AWAY} were refused" in says


def statements(change: Callable[[list[Row]], Any]) -> Change:
    return lambda run: change_lines(run / "statements.jsonl", change)


def words(change: Callable[[list[Row]], Any]) -> Change:
    """Change lines that are words; between them stands when the broker had each."""
    return statements(lambda rows: change([row for row in rows if "said_at" in row]))


def word(at: int, **changes: Any) -> Change:
    return words(lambda said: said[at].update(changes))


def word_later(at: int, by_ms: int) -> Change:
    return words(lambda said: said[at].update(said_at=said[at]["said_at"] + by_ms))


def had(at: int, by_ms: int) -> Change:
    """The broker is told to have had a word earlier or later."""

    def change(rows: list[Row]) -> None:
        line = [row for row in rows if "delivered_at" in row][at]
        line["delivered_at"] += by_ms

    return statements(change)


def end_moved(at: int, by: int) -> Change:
    def move(said: list[Row]) -> None:
        said[at]["offsets"] = {partition: end + by for partition, end in said[at]["offsets"].items()}

    return words(move)


SWAPPED = statements(lambda rows: rows.insert(0, rows.pop(8)))
"""A gateway's words of two turns change places."""


def last_acknowledged(by_ms: int) -> Change:
    """The record that the last word of a turn speaks of was acknowledged earlier or later."""
    return sent(lambda rows: rows[40].update(acked_at=rows[40]["acked_at"] + by_ms))


def clock(epoch: int, change: Callable[[Row], Any]) -> Change:
    return document("chain", lambda chain: change(chain["epochs"][epoch]["clock"]))


def fault(**changes: Any) -> Change:
    return history(lambda rows: next(row for row in rows if row["event"] == "fault").update(changes))


def settings(**changes: Any) -> Change:
    return manifest(lambda told: told["settings"].update(changes))


def spoke_while_away(rows: list[Row]) -> None:
    """The injector tells of a later return than there was."""
    told = next(row for row in rows if row["event"] == "fault")
    told.update(healed_at=told["healed_at"] + 24_000, held_s=told["held_s"] + 24, t=told["t"] + 24_000)


@pytest.mark.parametrize(
    ("does", "verdict", "why"),
    [
        (word(5, source="west-gate"), FAIL, "west-gate said at"),
        (word(5, said_at=1.5), UNKNOWN, "is no whole number"),
        (word(5, said_at="1750000000000"), UNKNOWN, "is no whole number"),
        (word(5, time_ms=0), FAIL, "took back at"),
        (SWAPPED, FAIL, "took back at"),
        (word_later(-1, 10**6), FAIL, "when there was no run"),
        (had(5, -60), FAIL, "before it was said"),
        (had(5, 10**9), FAIL, "when there was no run"),
        (word_later(5, 15_000), FAIL, "a record behind it had been acknowledged"),
        (word_later(5, -15_000), FAIL, "a record before it was acknowledged"),
        (end_moved(5, -3), FAIL, "a record behind it had been acknowledged"),
        (end_moved(5, 12), FAIL, "a record before it was acknowledged"),
        (end_moved(5, 10**6), FAIL, "no such record was acknowledged"),
        (end_moved(5, -(10**6)), FAIL, "no such record was acknowledged"),
        (last_acknowledged(30_000), FAIL, "a record before it was acknowledged"),
        (last_acknowledged(-30_000), UNKNOWN, "acknowledged before it was sent"),
        (clock(9, lambda one: one["sources"].update({AWAY: None})), FAIL, "after one that had it at"),
        (clock(0, lambda one: one.update(released=[AWAY])), FAIL, f"let {AWAY} go"),
        (clock(9, lambda one: one.update(released=[AWAY, AWAY])), FAIL, f"let ['{AWAY}', '{AWAY}'] go"),
        (clock(9, lambda one: one.update(released=[AWAY, "x"])), FAIL, f"let ['{AWAY}', 'x'] go"),
        (fault(process_before=f"gateway {NORTH}"), UNKNOWN, f"{NORTH} is told to have been away, and sent"),
        (fault(held_s=96.0), UNKNOWN, "is told to have been away for 96 s"),
        (fault(kept=10**6), UNKNOWN, "is told to have kept back 1000000 records"),
        (fault(kept=-1), UNKNOWN, "is told to have kept back -1 records"),
        (history(spoke_while_away), UNKNOWN, f"{AWAY} is told to have been away, and sent"),
        (settings(hold_max_ms=HOLD_MAX_MS - 1), UNKNOWN, f"hold_max_ms {HOLD_MAX_MS}, the manifest {HOLD_MAX_MS - 1}"),
        (settings(lateness_ms=LATENESS_MS - 1), UNKNOWN, f"lateness_ms {LATENESS_MS}, the manifest {LATENESS_MS - 1}"),
        (settings(hold_max_ms=10 * HOLD_MAX_MS), FAIL, "after its last word"),
    ],
)
@pytest.mark.thinned(3)
def test_what_no_other_file_says_too_is_found(run: Path, does: Change, verdict: Verdict, why: str) -> None:
    does(run)
    expect(run, verdict, "certificates", why)


@pytest.mark.parametrize("hold_max_ms", [600_000, 10_000])
def test_words_of_the_product_are_as_acknowledgements_made_them(hold_max_ms: int) -> None:
    one = GatewayWorld(hold_max_ms)
    assert (
        strangers(one.said, GATEWAYS)
        == find_taken_back(one.said)
        == find_mistimed(one.said, one.sends, one.sent_at)
        == []
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"target": "gatewax"}, "is no partition or gateway"),
        ({"target": "partition"}, "is no partition or gateway"),
        ({"process_after": f"gateway {NORTH}"}, f"to have been gateway {NORTH} that came back"),
    ],
)
def test_who_lags_is_who_is_struck_and_who_comes_back(run: Path, changes: Row, why: str) -> None:
    fault(**changes)(run)
    expect(run, UNKNOWN, "faults", why)


def test_a_lag_that_is_told_twice_is_one(run: Path) -> None:
    def twice(rows: list[Row]) -> None:
        at = next(at for at, row in enumerate(rows) if row["event"] == "fault")
        rows.insert(at, {**rows[at], "injected_at": rows[at]["injected_at"] + 100})

    history(twice)(run)
    expect(run, UNKNOWN, "faults", "told of it twice")


def test_a_rate_is_more_than_nothing(run: Path) -> None:
    settings(rate=0)(run)
    assert judge(run, write=False).verdict is UNKNOWN
